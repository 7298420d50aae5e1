(* Sections 2.2-2.3, Appendices D.4-D.5: score increments of positional edits, any number of planes.
   Labels: main:score, eq:phasescore, eq:phasejacobian, main:response (positional), U2, U3. *)
From FiniteCalculus Require Import Prelude Phi Response Calculus.
From Coquelicot Require Import Coquelicot.
From FiniteCalculus Require Import Analysis Planes.
Local Open Scope ring_scope.

Section Positional.
Variable h : nat.
Section Scores.
Variables (tau : R) (w : 'rV[R]_h) (q k : 'rV[R]_(h + h)).
Definition rawscore (k' : 'rV[R]_(h + h)) := tau^-1 * (q *m k'^T) 0 0.
Definition shift (v : 'rV[R]_h) d := rawscore (k *m (Rot v d)^T) - rawscore k.
Lemma shiftE v d : shift v d = tau^-1 * (q *m (Rot v d - 1%:M) *m k^T) 0 0.
Proof. by rewrite /shift /rawscore -mulrBr trmx_mul trmxK mulmxBr mulmx1 mulmxBl entryB mulmxA. Qed.
(* main:score, eq:phasescore: d_j = q (d A_b) phi1(d A_b) k^T / tau for the band b *)
Theorem phase_score b d : shift (band w b) d =
  tau^-1 * (q *m (d *: Gen (band w b)) *m Phi (band w b) d *m k^T) 0 0.
Proof.
by rewrite shiftE matrix_rho !mulmxA.
Qed.
(* main:score: the same with a sum over the planes of the band *)
Theorem phase_score_planes (v : 'rV[R]_h) d : shift v d = tau^-1 * \sum_r
  ((cos (d * v 0 r) - 1) * (q 0 (lshift h r) * k 0 (lshift h r) + q 0 (rshift h r) * k 0 (rshift h r))
   + sin (d * v 0 r) * (q 0 (rshift h r) * k 0 (lshift h r) - q 0 (lshift h r) * k 0 (rshift h r))).
Proof.
rewrite shiftE; congr (_ * _); rewrite cx_one /Rot cx_sub /cx -mulmxA.
set C := diag_mx _; set S := diag_mx _.
rewrite -[q]hsubmxK -[k]hsubmxK; set q1 := lsubmx q; set q2 := rsubmx q; set k1 := lsubmx k; set k2 := rsubmx k.
rewrite tr_row_mx mul_block_col mul_row_col !mulmxDr mulNmx mulmxN !entryD entryN !mulmxA.
have e (a b : 'rV[R]_h) (x : 'rV[R]_h) : (a *m diag_mx x *m b^T) 0 0 = \sum_r a 0 r * x 0 r * b 0 r.
  by rewrite mxE; apply: eq_bigr => r _; rewrite mul_mx_diag !mxE.
rewrite /C /S !e -sumrN -!big_split /=; apply: eq_bigr => r _.
by rewrite !row_mxEl !row_mxEr !mxE; mring.
Qed.
(* U2: score increments of disjoint bands add, d^{b u c} = d^b + d^c *)
Theorem band_scores b c d : (forall i, ~~ (b i && c i)) ->
  shift (band w [predU b & c]) d = shift (band w b) d + shift (band w c) d.
Proof.
by move=> dis; rewrite !shiftE band_displacement // mulmxDr mulmxDl entryD mulrDr.
Qed.
(* eq:phasejacobian: d_lin = d q A_b k^T / tau is the derivative of the score increment at zero shift *)
Theorem phase_jacobian (v : 'rV[R]_h) : is_derive (fun d : R => shift v d) 0 (tau^-1 * (q *m Gen v *m k^T) 0 0).
Proof.
pose f (d : R) := tau^-1 * \sum_i (\sum_j q 0 j * Rot v d j i) * k 0 i.
apply: (is_derive_ext (fun d : R => f d - rawscore k)).
  move=> d; rewrite /shift; congr (_ - _); rewrite /rawscore trmx_mul trmxK mulmxA mxE; congr (_ * _).
  by apply: eq_bigr => i _; rewrite !mxE.
apply: derive_eq (derive_sub (derive_mul (derive_const _ _) (derive_sum (fun i => derive_mul (derive_sum (fun j =>
  derive_mul (derive_const _ _) (rotation_derivative v 0 j i))) (derive_const _ _)))) (derive_const _ _)) _.
rewrite subr0 mul0r add0r mxE; congr (_ * _); apply: eq_bigr => i _; rewrite mulr0 addr0 !mxE; congr (_ * _).
by apply: eq_bigr => j _; rewrite mul0r add0r rotation_zero mulmx1.
Qed.
Lemma linear_planes (v : 'rV[R]_h) : (q *m Gen v *m k^T) 0 0 =
  \sum_r v 0 r * (q 0 (rshift h r) * k 0 (lshift h r) - q 0 (lshift h r) * k 0 (rshift h r)).
Proof.
rewrite /Gen /cx -mulmxA -[q]hsubmxK -[k]hsubmxK.
set q1 := lsubmx q; set q2 := rsubmx q; set k1 := lsubmx k; set k2 := rsubmx k.
rewrite linear0 tr_row_mx mul_block_col mul_row_col !mul0mx add0r addr0 mulNmx mulmxN entryD entryN !mulmxA.
have e (a b : 'rV[R]_h) (x : 'rV[R]_h) : (a *m diag_mx x *m b^T) 0 0 = \sum_r a 0 r * x 0 r * b 0 r.
  by rewrite mxE; apply: eq_bigr => r _; rewrite mul_mx_diag !mxE.
rewrite !e -sumrN -!big_split /=; apply: eq_bigr => r _.
by rewrite !row_mxEl !row_mxEr; mring.
Qed.
(* U3: the rotary remainder d - d_lin is of second order in the angles *)
Theorem rotary_remainder (v : 'rV[R]_h) d :
  `|shift v d - tau^-1 * (q *m (d *: Gen v) *m k^T) 0 0| <= `|tau^-1| * \sum_r
   ((d * v 0 r) ^+ 2 * `|q 0 (lshift h r) * k 0 (lshift h r) + q 0 (rshift h r) * k 0 (rshift h r)|
    + `|d * v 0 r| ^+ 3 * `|q 0 (rshift h r) * k 0 (lshift h r) - q 0 (lshift h r) * k 0 (rshift h r)|).
Proof.
rewrite -scalemxAr -scalemxAl entryZ linear_planes phase_score_planes -mulrBr normrM.
rewrite ler_wpmul2l // mulr_sumr -sumrB; apply: le_trans (ler_norm_sum _ _ _) _.
apply: ler_sum => r _; set A := _ + q 0 (rshift h r) * _; set B := _ - _ * k 0 (rshift h r).
have [/RleP c2 /RleP s2] := rotary_second (d * v 0 r); rewrite RpowE in s2.
have -> : (cos (d * v 0 r) - 1) * A + sin (d * v 0 r) * B - d * (v 0 r * B) =
    (cos (d * v 0 r) - 1) * A + (sin (d * v 0 r) - d * v 0 r) * B by mring.
apply: le_trans (ler_norm_add _ _) _; rewrite [`|_ * A|]normrM [`|_ * B|]normrM expr2.
by apply: ler_add; apply: ler_wpmul2r; rewrite ?normr_ge0.
Qed.
End Scores.

(* main:response with main:score: keys k_j shifted by del_j in band b; the exact response of the head *)
Theorem positional_head (I : finType) (V : lmodType R) (tau : R) (w : 'rV[R]_h) (b : pred 'I_h)
    (q : 'rV[R]_(h + h)) (k : I -> 'rV[R]_(h + h)) (del : I -> R) (v : I -> V) (j0 : I) :
  let p := softmax (fun j => rawscore tau q (k j)) in
  let p' := softmax (fun j => rawscore tau q (k j *m (Rot (band w b) (del j))^T)) in
  let t := tilt p (fun j => tau^-1 * (q *m (del j *: Gen (band w b)) *m Phi (band w b) (del j) *m (k j)^T) 0 0) in
  readout p' v - readout p v = \sum_j (p j * t j * phi1 (t j)) *: (v j - readout p v).
Proof.
move=> p p' t; set d := fun j => tau^-1 * _ in t *.
have -> : readout p' v = readout (moved p d) (fun j => v j + 0).
  apply: eq_bigr => j _; rewrite addr0 -moved_softmax; congr (_ *: _); apply: eq_softmax => i.
  by rewrite /d -phase_score /shift addrC subrK.
rewrite (response _ (softmax_distribution _ j0)) [X in _ + X]big1 ?addr0 // => j _.
by rewrite scaler0.
Qed.
End Positional.

