(* Prelude: notation, the bridge from Coq's real exp and ln to MathComp, and softmax.
   Everything is over an ARBITRARY finite index set I : finType. Labels: eq:attention (p, Z). *)
From Coq Require Export Reals.
From mathcomp Require Export all_ssreflect all_algebra.
From mathcomp.analysis Require Export Rstruct.
From mathcomp.algebra_tactics Require Export ring.
Export GRing.Theory Num.Theory Order.TTheory.
#[export] Set Implicit Arguments.
#[export] Unset Strict Implicit.
#[export] Unset Printing Implicit Defensive.
Global Open Scope ring_scope.
Bind Scope ring_scope with R.
Arguments Rtrigo_def.exp x%R.
Arguments Rpower.ln x%R.
Notation exp := Rtrigo_def.exp.
Notation ln := Rpower.ln.

(* ---------- exp and ln in MathComp's words ---------- *)
Lemma exp_gt0 (x : R) : 0 < exp x.           Proof. by apply/RltP; exact: exp_pos. Qed.
Lemma exp_ge0 (x : R) : 0 <= exp x.          Proof. exact/ltW/exp_gt0. Qed.
Lemma exp_neq0 (x : R) : exp x != 0.         Proof. by rewrite lt0r_neq0 ?exp_gt0. Qed.
(* main:kl: exponential convexity, 1 + x <= e^x *)
Lemma exp_ge1D (x : R) : 1 + x <= exp x.     Proof. by apply/RleP; exact: exp_ineq1_le. Qed.
Lemma expD (x y : R) : exp (x + y) = exp x * exp y.  Proof. exact: exp_plus. Qed.
Lemma exp0 : exp 0 = 1.                      Proof. exact: exp_0. Qed.
Lemma expN (x : R) : exp (- x) = (exp x)^-1.
Proof. by apply: (mulfI (exp_neq0 x)); rewrite -expD subrr exp0 mulfV ?exp_neq0. Qed.
Lemma expB (x y : R) : exp (x - y) = exp x / exp y.  Proof. by rewrite expD expN. Qed.
Lemma lnK (x : R) : 0 < x -> exp (ln x) = x.  Proof. by move=> /RltP; exact: exp_ln. Qed.
Lemma expK (x : R) : ln (exp x) = x.         Proof. exact: ln_exp. Qed.
Lemma exp_inj (x y : R) : exp x = exp y -> x = y. Proof. exact: exp_inv. Qed.
Lemma exp_lt (x y : R) : x < y -> exp x < exp y.
Proof. by move=> /RltP h; apply/RltP; exact: exp_increasing. Qed.
Lemma ln_prod (x y : R) : 0 < x -> 0 < y -> ln (x * y) = ln x + ln y.
Proof. by move=> /RltP hx /RltP hy; exact: ln_mult. Qed.
Lemma ln_quot (x y : R) : 0 < x -> 0 < y -> ln (x / y) = ln x - ln y.
Proof.
move=> x0 y0; apply: exp_inj; rewrite expB !lnK //.
by rewrite mulr_gt0 ?invr_gt0.
Qed.

(* ---------- distributions and softmax on a finite index set ---------- *)
Section Softmax.
Variable I : finType.

Definition distribution (p : I -> R) := (forall j, 0 < p j) /\ \sum_j p j = 1.
Definition Zsum (s : I -> R) : R := \sum_j exp (s j).
Definition softmax (s : I -> R) j : R := exp (s j) / Zsum s.

Lemma Zsum_gt0 (s : I -> R) (j0 : I) : 0 < Zsum s.
Proof.
rewrite /Zsum (bigD1 j0) //= ltr_spaddl ?exp_gt0 //.
by apply: sumr_ge0 => k _; exact: exp_ge0.
Qed.

Lemma eq_softmax (s s' : I -> R) : s =1 s' -> softmax s =1 softmax s'.
Proof. by move=> e j; rewrite /softmax /Zsum e; congr (_ / _); apply: eq_bigr => k _; rewrite e. Qed.

Lemma softmax_gt0 (s : I -> R) j : 0 < softmax s j.
Proof. by apply: divr_gt0; [exact: exp_gt0|exact: Zsum_gt0]. Qed.

(* eq:attention: softmax over a non-empty set is a positive distribution *)
Theorem softmax_distribution (s : I -> R) (j0 : I) : distribution (softmax s).
Proof.
split=> [j|]; first exact: softmax_gt0.
by rewrite -mulr_suml mulfV // lt0r_neq0 // (Zsum_gt0 s j0).
Qed.

Lemma distribution_nonempty (p : I -> R) : distribution p -> exists j : I, true.
Proof.
case=> _ p1; case: (pickP (fun _ : I => true)) => [j _|I0]; first by exists j.
by move: p1; rewrite big_pred0 // => /esym/eqP; rewrite oner_eq0.
Qed.
End Softmax.

(* ---------- zmod: equalities of abelian groups by comparing coefficients ---------- *)
Inductive zexpr := ZVar of nat | ZAdd of zexpr & zexpr | ZOpp of zexpr | ZNil.
Fixpoint zeval (V : zmodType) (l : seq V) e : V :=
  match e with
  | ZVar i => nth 0 l i | ZAdd a b => zeval l a + zeval l b | ZOpp a => - zeval l a | ZNil => 0
  end.
Fixpoint zcoef e (i : nat) : int :=
  match e with
  | ZVar k => (k == i)%:Z | ZAdd a b => zcoef a i + zcoef b i | ZOpp a => - zcoef a i | ZNil => 0
  end.
Lemma zevalE (V : zmodType) (l : seq V) e : zeval l e = \sum_(i < size l) nth 0 l i *~ zcoef e i.
Proof.
elim: e => [k|a IHa b IHb|a IHa|] /=.
- case: (ltnP k (size l)) => kl; last first.
    by rewrite nth_default // big1 // => i _; rewrite gtn_eqF // (leq_trans (ltn_ord i)).
  rewrite (bigD1 (Ordinal kl)) //= eqxx mulr1z big1 ?addr0 // => i /negbTE h.
  by rewrite eq_sym -[k]/(val (Ordinal kl)) val_eqE h.
- by rewrite IHa IHb -big_split /=; apply: eq_bigr => i _; rewrite mulrzDl.
- by rewrite IHa -sumrN; apply: eq_bigr => i _; rewrite mulrNz.
- by rewrite big1.
Qed.
Lemma zmodP (V : zmodType) (l : seq V) a b :
  all (fun i => zcoef a i == zcoef b i) (iota 0 (size l)) -> zeval l a = zeval l b.
Proof.
move=> /allP h; rewrite !zevalE; apply: eq_bigr => i _.
by rewrite (eqP (h i _)) // mem_iota ltn_ord.
Qed.
Ltac zsame x z := match goal with _ => constr_eq x z | _ => unify x z end.
Ltac zlist_has x l :=
  match l with
  | nil => constr:(false)
  | cons ?z ?r => match goal with _ => let _ := match goal with _ => zsame x z end in constr:(true)
                             | _ => zlist_has x r end
  end.
Ltac zlist_add e l :=
  match e with
  | @GRing.add _ ?a ?b => let l1 := zlist_add a l in zlist_add b l1
  | @GRing.opp _ ?a => zlist_add a l
  | GRing.zero _ => l
  | _ => match zlist_has e l with true => l | false => constr:(cons e l) end
  end.
Ltac zindex x l :=
  match l with
  | cons ?z ?r => match goal with _ => let _ := match goal with _ => zsame x z end in constr:(O)
                             | _ => let n := zindex x r in constr:(S n) end
  end.
Ltac zreify e l :=
  match e with
  | @GRing.add _ ?a ?b => let x := zreify a l in let z := zreify b l in constr:(ZAdd x z)
  | @GRing.opp _ ?a => let x := zreify a l in constr:(ZOpp x)
  | GRing.zero _ => constr:(ZNil)
  | _ => let n := zindex e l in constr:(ZVar n)
  end.
Ltac zmod :=
  match goal with |- @eq ?T ?a ?b =>
    let l0 := zlist_add a (@nil T) in let l := zlist_add b l0 in
    let x := zreify a l in let z := zreify b l in
    apply: (@zmodP _ l x z); vm_compute; reflexivity
  end.
(* the same after distributing scalars over vectors *)
Ltac lmod := rewrite ?(scalerDr, scalerBr, scalerDl, scalerBl, scalerN, scaleNr); zmod.

(* ---------- entries of sums of matrices, without unfolding products ---------- *)
Section Entries.
Variables (K : ringType) (m n : nat) (A B : 'M[K]_(m, n)) (i : 'I_m) (j : 'I_n).
Lemma entryD : (A + B) i j = A i j + B i j.   Proof. by rewrite mxE. Qed.
Lemma entryN : (- A) i j = - A i j.           Proof. by rewrite mxE. Qed.
Lemma entryB : (A - B) i j = A i j - B i j.   Proof. by rewrite mxE [X in _ + X]mxE. Qed.
Lemma entryZ c : (c *: A) i j = c * A i j.    Proof. by rewrite mxE. Qed.
End Entries.
(* matrix entries as atoms, so that ring sees convertible forms of R as one type *)
Ltac entries := repeat match goal with
  |- context [@fun_of_matrix _ ?m ?n ?A ?i ?j] =>
     let x := fresh "x" in set x := (@fun_of_matrix _ m n A i j); move: x => x end.
Ltac mring := entries; ring.
