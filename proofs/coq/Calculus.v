(* Calculus over finite sums: Coquelicot derivatives in MathComp's words, and the derivative of a
   softmax expectation along a score direction. Labels: eq:softmaxmixed (first derivative), U7. *)
From FiniteCalculus Require Import Prelude Phi Response.
From Coquelicot Require Import Coquelicot.
Local Open Scope ring_scope.

Section Rules.
Variables (f g : R -> R) (x df dg : R).
Hypotheses (Hf : is_derive f x df) (Hg : is_derive g x dg).
Lemma derive_add : is_derive (fun u => f u + g u) x (df + dg).
Proof. exact: (is_derive_plus f g x df dg). Qed.
Lemma derive_sub : is_derive (fun u => f u - g u) x (df - dg).
Proof. exact: (is_derive_minus f g x df dg). Qed.
Lemma derive_opp : is_derive (fun u => - f u) x (- df).
Proof. exact: (is_derive_opp f x df). Qed.
Lemma derive_mul : is_derive (fun u => f u * g u) x (df * g x + f x * dg).
Proof. by apply: (is_derive_mult f g x df dg) => // n m; exact: Rmult_comm. Qed.
Lemma derive_exp : is_derive (fun u => exp (f u)) x (df * exp (f x)).
Proof. exact: (is_derive_comp exp f x (exp (f x)) df (is_derive_exp _)). Qed.
Lemma derive_inv : (forall u, f u != 0) -> is_derive (fun u => (f u)^-1) x (- df / f x ^+ 2).
Proof.
move=> f0; have := is_derive_inv f x df Hf (elimN eqP (f0 x)).
rewrite RdivE ?RpowE ?expf_eq0 ?f0 // => h.
by apply: is_derive_ext h => u; rewrite RinvE.
Qed.
End Rules.

Lemma derive_const (c x : R) : is_derive (fun _ : R => c) x 0.
Proof. exact: is_derive_const. Qed.
Lemma derive_id (x : R) : is_derive (fun u : R => u) x 1.
Proof. exact: is_derive_id. Qed.
Lemma derive_eq (f : R -> R) (x l l' : R) : is_derive f x l -> l = l' -> is_derive f x l'.
Proof. by move=> h <-. Qed.
(* a finite sum is differentiated term by term *)
Theorem derive_sum (I : finType) (f : I -> R -> R) (x : R) (l : I -> R) :
  (forall j, is_derive (f j) x (l j)) -> is_derive (fun u => \sum_j f j u) x (\sum_j l j).
Proof.
move=> h; elim: (index_enum I) => [|j e IH].
  rewrite big_nil; apply: (@is_derive_ext R_AbsRing R_NormedModule (fun _ : R => (0 : R))); last exact: derive_const.
  by move=> u; rewrite big_nil.
rewrite big_cons; apply: (is_derive_ext (fun u => f j u + \sum_(i <- e) f i u)).
  by move=> u; rewrite big_cons.
exact: derive_add.
Qed.
(* U7: d(u^T M) = du^T M + u^T dM, entry by entry along any differentiable path *)
Theorem product_rule n r (u : R -> 'rV[R]_n) (M : R -> 'M[R]_(n, r)) (x : R) (du : 'rV[R]_n) (dM : 'M[R]_(n, r)) :
  (forall k, is_derive (fun e => u e 0 k) x (du 0 k)) ->
  (forall k l, is_derive (fun e => M e k l) x (dM k l)) ->
  forall l, is_derive (fun e => (u e *m M e) 0 l) x ((du *m M x + u x *m dM) 0 l).
Proof.
move=> hu hM l; apply: (is_derive_ext (fun e => \sum_k u e 0 k * M e k l)).
  by move=> e; rewrite mxE.
rewrite !mxE -big_split /=; apply: derive_sum => k; exact: derive_mul.
Qed.

Section Expectation.
Variable I : finType.
Definition expect (s f : I -> R) := \sum_j softmax s j * f j.
Definition along (s b : I -> R) (t : R) j := s j + t * b j.
Lemma expectE s f : expect s f = (\sum_j exp (s j) * f j) / Zsum s.
Proof. by rewrite /expect mulr_suml; apply: eq_bigr => j _; rewrite /softmax mulrAC. Qed.
Lemma eq_expect s f g : f =1 g -> expect s f = expect s g.
Proof. by move=> e; apply: eq_bigr => j _; rewrite e. Qed.
Lemma expect_score s s' f : s =1 s' -> expect s f = expect s' f.
Proof. by move=> e; apply: eq_bigr => j _; rewrite (eq_softmax e). Qed.
Lemma expectD s f g : expect s (fun j => f j + g j) = expect s f + expect s g.
Proof. by rewrite -big_split /=; apply: eq_bigr => j _; rewrite mulrDr. Qed.
Lemma expectZ s c f : expect s (fun j => c * f j) = c * expect s f.
Proof. by rewrite mulr_sumr; apply: eq_bigr => j _; rewrite mulrCA. Qed.
Lemma expect1 (j0 : I) s c : expect s (fun _ => c) = c.
Proof. by rewrite /expect -mulr_suml (proj2 (softmax_distribution s j0)) mul1r. Qed.
(* eq:softmaxmixed, first order: d/dt E_p f = E[f b] - E[f] E[b] along s + t b *)
Theorem derive_expect (j0 : I) s b f t :
  is_derive (fun u => expect (along s b u) f) t
    (expect (along s b t) (fun j => f j * b j) - expect (along s b t) f * expect (along s b t) b).
Proof.
have dE c j : is_derive (fun u => exp (along s b u j) * c) t (exp (along s b t j) * (c * b j)).
  apply: derive_eq (derive_mul (derive_exp (derive_add (derive_const _ _) (derive_mul (derive_id _) (derive_const _ _)))) (derive_const _ _)) _.
  by rewrite /along; ring.
have Z0 u : Zsum (along s b u) != 0 by rewrite lt0r_neq0 // (Zsum_gt0 _ j0).
apply: (is_derive_ext (fun u => (\sum_j exp (along s b u j) * f j) * (Zsum (along s b u))^-1)).
  by move=> u; rewrite expectE.
have dZ : is_derive (fun u => Zsum (along s b u)) t (\sum_j exp (along s b t j) * b j).
  apply: derive_sum => j; apply: derive_eq (is_derive_ext _ _ _ _ _ (dE 1 j)) _; last by rewrite mul1r.
  by move=> u; rewrite mulr1.
apply: derive_eq (derive_mul (derive_sum (fun j => dE (f j) j)) (derive_inv dZ Z0)) _.
rewrite !expectE; have := Z0 t; move: (Zsum _) => Z nZ.
by move: (\sum_j _ * (f j * _)) (\sum_j _ * f j) (\sum_j _ * b j) => A B C; field.
Qed.
End Expectation.
