(* Section 3.3-4 and Appendix C.4-C.5: curvature, attention-preserving edits and query control.
   Labels: main:curvature, eq:curvaturegauge, eq:curvaturekernel, eq:querylogodds,
   main:querycontrol, U8, U11, U12. Features a_j in R^(m+1), query u = (x, 1), finite edits h. *)
From FiniteCalculus Require Import Prelude Phi Response Effective Reuse PseudoInverse.
Local Open Scope ring_scope.

(* eq:curvaturekernel: softmax is unchanged exactly by common shifts, any finite index set *)
Theorem softmax_eq (I : finType) (s s' : I -> R) (j0 : I) :
  (softmax s =1 softmax s') <-> (forall j, s' j - s' j0 = s j - s j0).
Proof.
have Z0 (f : I -> R) : Zsum f != 0 by rewrite lt0r_neq0 // (Zsum_gt0 f j0).
split=> [h j|h j].
- apply: exp_inj; rewrite !expB.
  have q (f : I -> R) : exp (f j) / exp (f j0) = softmax f j / softmax f j0.
    by rewrite /softmax; field; rewrite Z0 exp_neq0.
  by rewrite !q !h.
- have uE k : exp (s' k) = exp (s k) * exp (s' j0 - s j0).
    by rewrite -expD; congr exp; rewrite -[s' k](subrK (s' j0)) h; ring.
  have ZE : Zsum s' = Zsum s * exp (s' j0 - s j0).
    by rewrite /Zsum mulr_suml; apply: eq_bigr => k _; rewrite uE.
  by rewrite /softmax uE ZE invfM mulrACA mulfV ?exp_neq0 // mulr1.
Qed.

(* eq:curvaturekernel: a positively weighted sum of squares vanishes only termwise *)
Theorem positive_form (I : finType) (c x : I -> R) :
  (forall j, 0 < c j) -> (\sum_j c j * x j ^+ 2 = 0) <-> (forall j, x j = 0).
Proof.
move=> c0; split=> [h j|h]; last by apply: big1 => j _; rewrite h expr0n mulr0.
have ge0 k : true -> 0 <= c k * x k ^+ 2 by move=> _; rewrite mulr_ge0 ?sqr_ge0 // ltW.
move/eqP: h; rewrite psumr_eq0 // => /allP/(_ j (mem_index_enum j)) /=.
by rewrite mulf_eq0 gt_eqF ?c0 //= sqrf_eq0 => /eqP.
Qed.

(* U8: shifting every key by b (the mean key, say) is the gauge g = L b and leaves attention unchanged;
   these gauges are the column space of L, of dimension at most d *)
Theorem key_shift (I : finType) n d (L : 'M[R]_(n, d)) (k : I -> 'cV[R]_d) (b : 'cV[R]_d) (u : 'cV[R]_n) (j0 : I) :
  [/\ forall j, L *m (k j - b) = L *m k j - L *m b,
      softmax (score u (fun j => L *m (k j - b))) =1 softmax (score u (fun j => L *m k j)) &
      (\rank L <= d)%N].
Proof.
split=> [j||]; [by rewrite mulmxBr| |exact: rank_leq_col].
by apply/(softmax_eq _ _ j0) => j; rewrite /score !mulmxBr !entryB; ring.
Qed.

Section Query.
Variables (I : finType) (m : nat) (a : I -> 'cV[R]_(m + 1)).
Definition aug (x : 'cV[R]_m) : 'cV[R]_(m + 1) := col_mx x (1%:M : 'M_1).
Definition attention (x : 'cV[R]_m) := softmax (score (aug x) a).
(* \bar a_j: the editable coordinates of the feature, as a row *)
Definition editable (b : 'cV[R]_(m + 1)) : 'rV[R]_m := (usubmx b)^T.
Definition embed : 'M[R]_(m + 1, m) := col_mx 1%:M 0.

Lemma editableE (b : 'cV[R]_(m + 1)) (h : 'cV[R]_m) : b^T *m (embed *m h) = editable b *m h.
Proof.
rewrite -{1}[b]vsubmxK tr_col_mx /embed mul_col_mx mul1mx mul0mx mul_row_col mulmx0 addr0.
by [].
Qed.
Lemma aug_edit (x h : 'cV[R]_m) : aug (x + h) = aug x + embed *m h.
Proof. by rewrite /aug /embed mul_col_mx mul1mx mul0mx add_col_mx addr0. Qed.
Lemma score_edit (x h : 'cV[R]_m) j : score (aug (x + h)) a j = score (aug x) a j + (editable (a j) *m h) 0 0.
Proof.
rewrite /score aug_edit.
have -> : (aug x + embed *m h)^T = (aug x)^T + (embed *m h)^T by rewrite linearD.
rewrite mulmxDl entryD -editableE; congr (_ + _).
by rewrite -[(embed *m h)^T *m a j]trmxK [in LHS]mxE trmx_mul trmxK.
Qed.
Lemma editableB (b c : 'cV[R]_(m + 1)) : editable (b - c) = editable b - editable c.
Proof. by rewrite /editable !linearB. Qed.

(* eq:querylogodds: the log odds are affine in the edit, exactly, for finite h *)
Theorem log_odds (x h : 'cV[R]_m) j k :
  ln (attention (x + h) j / attention (x + h) k) =
  ((aug x)^T *m (a j - a k)) 0 0 + ((editable (a j) - editable (a k)) *m h) 0 0.
Proof.
rewrite ln_quot ?softmax_gt0 // /attention /softmax.
rewrite !ln_quot ?exp_gt0 ?(Zsum_gt0 _ j) // !expK !score_edit /score.
by rewrite mulmxBr mulmxBl !entryB; ring.
Qed.

Variable j0 : I.
Let rel j := a j - a j0.
Definition ctilde x j := coef (aug x) (fun j => a j - a j0) j.
Definition Gamma x : 'M[R]_m := embed^T *m curvature (ctilde x) (fun j => a j - a j0) *m embed.
Definition Hall : 'M[R]_(#|I|, m) := \matrix_(i < #|I|) editable (a (enum_val i) - a j0).

(* eq:curvaturegauge: the gauge coefficients are positive *)
Theorem ctilde_gt0 x j : 0 < ctilde x j.
Proof. exact: coef_gt0. Qed.
(* eq:curvaturegauge: the reference gauge leaves softmax and the readout unchanged *)
Theorem gauge_readout x r (v : I -> 'rV[R]_r) :
  readout (attention x) v = mean v + (aug x)^T *m DM (aug x) (fun j => a j - a j0) v.
Proof.
have e : attention x =1 softmax (score (aug x) rel).
  by apply/(softmax_eq _ _ j0) => k; rewrite /score /rel !mulmxBr !entryB; ring.
by rewrite -(identity (aug x) _ v j0); apply: eq_bigr => j _; rewrite e.
Qed.
Lemma Hall_kernel (h : 'cV[R]_m) : Hall *m h = 0 <-> (forall j, (editable (rel j) *m h) 0 0 = 0).
Proof.
split=> [e j|e].
- have := congr1 (fun M : 'cV[R]_(#|I|) => M (enum_rank j) 0) e; rewrite mxE [in RHS]mxE => <-.
  by rewrite mxE; apply: eq_bigr => l _; rewrite [in RHS]mxE enum_rankK.
- apply/matrixP => i z; rewrite ord1 mxE [RHS]mxE -[RHS](e (enum_val i)) mxE.
  by apply: eq_bigr => l _; rewrite [in LHS]mxE.
Qed.
(* U9, cor:curvaturecontrol: h^T Gamma h = sum c (a~^T P h)^2 *)
Theorem Gamma_form x (h : 'cV[R]_m) : (h^T *m Gamma x *m h) 0 0 = \sum_j ctilde x j * (editable (rel j) *m h) 0 0 ^+ 2.
Proof.
have -> : h^T *m Gamma x *m h = (embed *m h)^T *m curvature (ctilde x) rel *m (embed *m h).
  by rewrite trmx_mul /Gamma !mulmxA.
by rewrite curvature_form; apply: eq_bigr => j _; rewrite editableE.
Qed.
(* main:curvature, eq:curvaturekernel, cor:curvaturecontrol: ker Gamma = ker H_all *)
Theorem curvature_kernel x (h : 'cV[R]_m) : Gamma x *m h = 0 <-> Hall *m h = 0.
Proof.
rewrite Hall_kernel; split=> [e|e].
- apply/(positive_form _ (ctilde_gt0 x)); rewrite -Gamma_form -mulmxA e mulmx0; exact: mxE.
- rewrite /Gamma -!mulmxA /curvature mulmx_suml big1 ?mulmx0 // => j _.
  have z : (rel j)^T *m (embed *m h) = 0.
    by rewrite editableE; apply/matrixP => i k; rewrite !ord1 e mxE.
  by rewrite -scalemxAl -mulmxA z mulmx0 scaler0.
Qed.
(* main:curvature, eq:curvaturekernel, cor:curvaturecontrol: ker H_all = {h : p(x + h) = p(x)}, finite h *)
Theorem preserving_kernel x (h : 'cV[R]_m) : Hall *m h = 0 <-> attention (x + h) =1 attention x.
Proof.
rewrite Hall_kernel /attention (softmax_eq _ _ j0); split=> e j.
- have := e j; rewrite editableB mulmxBl entryB !score_edit => /eqP; rewrite subr_eq0 => /eqP ->; ring.
- have := e j; rewrite editableB mulmxBl entryB !score_edit => h0.
  by apply/eqP; rewrite -subr_eq0; apply/eqP; rewrite -(subrr (score (aug x) a j - score (aug x) a j0)) {1}h0; ring.
Qed.
End Query.

(* eq:curvaturekernel: the kernel depends neither on the query x nor on the reference key *)
Theorem kernel_independent (I : finType) m (a : I -> 'cV[R]_(m + 1)) (j0 j1 : I) (x x' h : 'cV[R]_m) :
  Gamma a j0 x *m h = 0 <-> Gamma a j1 x' *m h = 0.
Proof.
have k j z : Gamma a j z *m h = 0 <-> attention a (x + h) =1 attention a x.
  exact: iff_trans (curvature_kernel a j z h) (preserving_kernel a j x h).
exact: iff_trans (k j0 x) (iff_sym (k j1 x')).
Qed.

Section Request.
Variables (I : finType) (m k : nat) (a : I -> 'cV[R]_(m + 1)) (x : 'cV[R]_m).
Variables (fst_key snd_key : 'I_k -> I) (ell : 'I_k -> R).
Definition Hreq : 'M[R]_(k, m) := \matrix_(r < k) (editable (a (fst_key r)) - editable (a (snd_key r))).
Definition breq : 'cV[R]_k := \col_(r < k) (ell r - ((aug x)^T *m (a (fst_key r) - a (snd_key r))) 0 0).
(* main:querycontrol: h meets the requested log ratios exactly when H h = b *)
Theorem request (h : 'cV[R]_m) :
  (forall r, ln (attention a (x + h) (fst_key r) / attention a (x + h) (snd_key r)) = ell r)
  <-> Hreq *m h = breq.
Proof.
have e r : (Hreq *m h) r 0 = ((editable (a (fst_key r)) - editable (a (snd_key r))) *m h) 0 0.
  by rewrite !mxE; apply: eq_bigr => l _; rewrite [in LHS]mxE.
split=> [q|q r].
- by apply/colP => r; rewrite e [RHS]mxE -(q r) log_odds addrAC subrr add0r.
- by rewrite log_odds -e q [breq r 0]mxE addrC subrK.
Qed.
(* main:querycontrol: if feasible, h = H^+ b is the unique minimum-norm edit *)
Theorem query_control X : penrose Hreq X -> (exists h, Hreq *m h = breq) ->
  let hs := X *m breq in
  [/\ Hreq *m hs = breq,
      forall r, ln (attention a (x + hs) (fst_key r) / attention a (x + hs) (snd_key r)) = ell r &
      forall h, (forall r, ln (attention a (x + h) (fst_key r) / attention a (x + h) (snd_key r)) = ell r) ->
        sqn hs <= sqn h /\ (sqn h = sqn hs -> h = hs)].
Proof.
move=> P /(feasible _ P) f hs; split=> // [|h]; first exact/request.
by move=> /request; exact: min_norm.
Qed.
End Request.

(* U11: H and b see only feature differences, so a common shift a - g changes neither *)
Theorem request_gauge (I : finType) m k (a : I -> 'cV[R]_(m + 1)) (g : 'cV[R]_(m + 1)) x (f s : 'I_k -> I) (ell : 'I_k -> R) :
  Hreq (fun j => a j - g) f s = Hreq a f s /\ breq (fun j => a j - g) x f s ell = breq a x f s ell.
Proof.
split; first by apply/row_matrixP => r; rewrite !rowK !editableB; zmod.
by apply/colP => r; rewrite !mxE; congr (_ - _); apply: eq_bigr => l _; rewrite !mxE; congr (_ * _); ring.
Qed.
(* U11: with all key pairs, ker H is the set of attention-preserving edits *)
Theorem all_pairs (I : finType) m (a : I -> 'cV[R]_(m + 1)) (x h : 'cV[R]_m) (j0 : I) :
  (forall j k, (editable (a j) - editable (a k)) *m h = 0) <-> attention a (x + h) =1 attention a x.
Proof.
rewrite -(preserving_kernel a j0 x) Hall_kernel; split=> [e j|e j k].
- by rewrite editableB e mxE.
- apply/matrixP => i l; rewrite !ord1 [RHS]mxE.
  have := e j; have := e k; rewrite !editableB !mulmxBl !entryB => /eqP; rewrite subr_eq0 => /eqP ->.
  by move/eqP; rewrite subr_eq0 => /eqP ->; rewrite subrr.
Qed.
(* U12: preserving the output is weaker than preserving attention: equal values on two keys *)
Theorem output_weaker : exists (a : bool -> 'cV[R]_(1 + 1)) (v : bool -> 'rV[R]_1) (x h : 'cV[R]_1),
  readout (attention a (x + h)) v = readout (attention a x) v /\ ~ attention a (x + h) =1 attention a x.
Proof.
exists (fun j => if j then col_mx 1%:M 0 else 0), (fun _ => 1%:M), 0, 1%:M; split.
  have q s : readout (softmax s) (fun _ : bool => 1%:M : 'rV[R]_1) = 1%:M.
    by rewrite /readout -scaler_suml (proj2 (softmax_distribution s true)) scale1r.
  by rewrite /attention !q.
move=> /(all_pairs _ _ _ true) /(_ true false); rewrite -editableB subr0 /editable col_mxKu trmx1 mul1mx.
by move/matrixP/(_ 0 0); rewrite !mxE eqxx => /eqP; rewrite oner_eq0.
Qed.
