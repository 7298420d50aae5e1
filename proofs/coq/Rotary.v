(* Section 2.1 and Appendix A on one rotary plane, with every frequency and zero frequency included.
   Labels: main:central, main:rotation, main:integrate, eq:derivatives, eq:matrixrho, eq:rotation,
   U1, U22, X7. Planes.v stacks arbitrarily many planes. J (x1, x2) = (- x2, x1). *)
From Coq Require Import Reals Lra Lia.
From Coquelicot Require Import Coquelicot.
Open Scope R_scope.

(* rotation of (x1, x2) by th, component by component *)
Definition rot1 th x1 x2 := cos th * x1 - sin th * x2.
Definition rot2 th x1 x2 := sin th * x1 + cos th * x2.
(* phi1(th J) = sinc(th) I + cosc(th) J *)
Definition sinc x := if Req_EM_T x 0 then 1 else sin x / x.
Definition cosc x := if Req_EM_T x 0 then 0 else (1 - cos x) / x.

Lemma sincE th : th * sinc th = sin th.
Proof. unfold sinc; destruct Req_EM_T as [->|h]; [rewrite sin_0; ring | field; assumption]. Qed.
Lemma coscE th : th * cosc th = 1 - cos th.
Proof. unfold cosc; destruct Req_EM_T as [->|h]; [rewrite cos_0; ring | field; assumption]. Qed.

(* main:central, eq:matrixrho: (th J)(sinc I + cosc J) = R(th) - I *)
Theorem rotary_block th x1 x2 :
  let f1 := sinc th * x1 - cosc th * x2 in let f2 := cosc th * x1 + sinc th * x2 in
  - th * f2 = rot1 th x1 x2 - x1 /\ th * f1 = rot2 th x1 x2 - x2.
Proof.
intros f1 f2; unfold f1, f2, rot1, rot2; split.
- transitivity (- (th * cosc th) * x1 - (th * sinc th) * x2); [ring|]. rewrite sincE, coscE; ring.
- transitivity ((th * sinc th) * x1 - (th * cosc th) * x2); [ring|]. rewrite sincE, coscE; ring.
Qed.

(* eq:rotation: R(a) R(b) = R(a + b) *)
Theorem group_law a b x1 x2 :
  rot1 a (rot1 b x1 x2) (rot2 b x1 x2) = rot1 (a + b) x1 x2 /\
  rot2 a (rot1 b x1 x2) (rot2 b x1 x2) = rot2 (a + b) x1 x2.
Proof. unfold rot1, rot2; rewrite cos_plus, sin_plus; split; ring. Qed.
(* eq:rotation: <R(a) q, R(b) k> = <q, R(b - a) k> *)
Theorem relative_position a b q1 q2 k1 k2 :
  rot1 a q1 q2 * rot1 b k1 k2 + rot2 a q1 q2 * rot2 b k1 k2
  = q1 * rot1 (b - a) k1 k2 + q2 * rot2 (b - a) k1 k2.
Proof. unfold rot1, rot2; rewrite cos_minus, sin_minus; ring. Qed.

(* main:central: d/dp z = A z *)
Theorem generator w x1 x2 p :
  is_derive (fun p => rot1 (w * p) x1 x2) p (- w * rot2 (w * p) x1 x2) /\
  is_derive (fun p => rot2 (w * p) x1 x2) p (w * rot1 (w * p) x1 x2).
Proof. unfold rot1, rot2; split; (auto_derive; [exact I | ring]). Qed.

Lemma cos_scaled w p : is_derive (fun u => cos (u * w)) p (- (w * sin (p * w))).
Proof. auto_derive; [exact I | ring]. Qed.
Lemma sin_scaled w p : is_derive (fun u => sin (u * w)) p (w * cos (p * w)).
Proof. auto_derive; [exact I | ring]. Qed.

(* A^n (x1, x2) *)
Fixpoint Apow w n (x : R * R) := match n with O => x | S n => let y := Apow w n x in (- w * snd y, w * fst y) end.
Lemma Apow_rot w n th x :
  Apow w n (rot1 th (fst x) (snd x), rot2 th (fst x) (snd x)) =
  (rot1 th (fst (Apow w n x)) (snd (Apow w n x)), rot2 th (fst (Apow w n x)) (snd (Apow w n x))).
Proof. induction n as [|n IH]; simpl; [reflexivity|]. rewrite IH; unfold rot1, rot2; simpl; f_equal; ring. Qed.
(* eq:derivatives: the n-th derivative of z is A^n z, every n *)
Theorem derivatives w x n p :
  let z q := (rot1 (w * q) (fst x) (snd x), rot2 (w * q) (fst x) (snd x)) in
  is_derive_n (fun q => fst (z q)) n p (fst (Apow w n (z p))) /\
  is_derive_n (fun q => snd (z q)) n p (snd (Apow w n (z p))).
Proof.
intros z.
assert (E : forall m, (forall q, Derive_n (fun q => fst (z q)) m q = fst (Apow w m (z q))) /\
                      (forall q, Derive_n (fun q => snd (z q)) m q = snd (Apow w m (z q)))).
{ induction m as [|m [IH1 IH2]]; [split; reflexivity|].
  destruct (Apow w m x) as [y1 y2] eqn:Ey.
  split; intro q; simpl; apply is_derive_unique.
  - apply (is_derive_ext (fun q => rot1 (w * q) y1 y2)).
    + intro t; rewrite IH1; unfold z; rewrite Apow_rot, Ey; reflexivity.
    + unfold z; rewrite Apow_rot, Ey; simpl; apply generator.
  - apply (is_derive_ext (fun q => rot2 (w * q) y1 y2)).
    + intro t; rewrite IH2; unfold z; rewrite Apow_rot, Ey; reflexivity.
    + unfold z; rewrite Apow_rot, Ey; simpl; apply generator. }
destruct n as [|n]; [split; reflexivity|].
destruct (Apow w n x) as [y1 y2] eqn:Ey; split; simpl.
- apply (is_derive_ext (fun q => rot1 (w * q) y1 y2)).
  + intro t; rewrite (proj1 (E n)); unfold z; rewrite Apow_rot, Ey; reflexivity.
  + unfold z; rewrite Apow_rot, Ey; simpl; apply generator.
- apply (is_derive_ext (fun q => rot2 (w * q) y1 y2)).
  + intro t; rewrite (proj2 (E n)); unfold z; rewrite Apow_rot, Ey; reflexivity.
  + unfold z; rewrite Apow_rot, Ey; simpl; apply generator.
Qed.

(* main:rotation: R(p) = e^{pA} is the only solution of z' = A z with z(0) = x *)
Theorem flow_unique w (z1 z2 : R -> R) :
  (forall p, is_derive z1 p (- w * z2 p)) -> (forall p, is_derive z2 p (w * z1 p)) ->
  forall p, z1 p = rot1 (w * p) (z1 0) (z2 0) /\ z2 p = rot2 (w * p) (z1 0) (z2 0).
Proof.
intros D1 D2 p.
set (g := fun p => (z1 p - rot1 (w * p) (z1 0) (z2 0)) ^ 2 + (z2 p - rot2 (w * p) (z1 0) (z2 0)) ^ 2).
assert (g0 : forall q, is_derive g q 0).
{ intro q. unfold g, rot1, rot2.
  assert (e1 : Derive (fun x => z1 x) q = - w * z2 q) by (apply is_derive_unique; apply D1).
  assert (e2 : Derive (fun x => z2 x) q = w * z1 q) by (apply is_derive_unique; apply D2).
  auto_derive; [repeat split; [eexists; apply D1 | eexists; apply D2]|].
  rewrite e1, e2; ring. }
assert (c : g p = g 0).
{ destruct (Rtotal_order p 0) as [h|[->|h]]; [|reflexivity|].
  - apply (eq_is_derive g); [intros; apply g0 | exact h].
  - symmetry; apply (eq_is_derive g); [intros; apply g0 | exact h]. }
assert (z : g 0 = 0).
{ unfold g, rot1, rot2; rewrite Rmult_0_r, cos_0, sin_0; ring. }
rewrite z in c; unfold g in c.
set (u := z1 p - rot1 (w * p) (z1 0) (z2 0)) in c; set (v := z2 p - rot2 (w * p) (z1 0) (z2 0)) in c.
assert (u = 0 /\ v = 0) as [u0 v0] by (split; nra).
unfold u in u0; unfold v in v0; split; lra.
Qed.

(* main:integrate: z(p + delta) - z(p) = delta int_0^1 A e^{t delta A} z(p) dt *)
Theorem integrate w delta x1 x2 :
  is_RInt (fun t => delta * (- w * rot2 (w * (t * delta)) x1 x2)) 0 1 (rot1 (w * delta) x1 x2 - x1) /\
  is_RInt (fun t => delta * (w * rot1 (w * (t * delta)) x1 x2)) 0 1 (rot2 (w * delta) x1 x2 - x2).
Proof.
split.
- replace (rot1 (w * delta) x1 x2 - x1) with
    (minus (rot1 (w * (1 * delta)) x1 x2) (rot1 (w * (0 * delta)) x1 x2)).
  2:{ unfold minus, plus, opp; simpl. rewrite Rmult_1_l, Rmult_0_l, Rmult_0_r.
      unfold rot1; rewrite cos_0, sin_0; ring. }
  apply (is_RInt_derive (fun t => rot1 (w * (t * delta)) x1 x2)).
  + intros t _; unfold rot1, rot2; auto_derive; [exact I | ring].
  + intros t _; apply (ex_derive_continuous (fun t => delta * (- w * rot2 (w * (t * delta)) x1 x2))).
    unfold rot2; auto_derive; exact I.
- replace (rot2 (w * delta) x1 x2 - x2) with
    (minus (rot2 (w * (1 * delta)) x1 x2) (rot2 (w * (0 * delta)) x1 x2)).
  2:{ unfold minus, plus, opp; simpl. rewrite Rmult_1_l, Rmult_0_l, Rmult_0_r.
      unfold rot2; rewrite cos_0, sin_0; ring. }
  apply (is_RInt_derive (fun t => rot2 (w * (t * delta)) x1 x2)).
  + intros t _; unfold rot1, rot2; auto_derive; [exact I | ring].
  + intros t _; apply (ex_derive_continuous (fun t => delta * (w * rot1 (w * (t * delta)) x1 x2))).
    unfold rot1; auto_derive; exact I.
Qed.
(* main:integrate: phi1(th J) = int_0^1 e^{t th J} dt, entry by entry, th = 0 included *)
Theorem phi_integral th :
  is_RInt (fun t => cos (t * th)) 0 1 (sinc th) /\ is_RInt (fun t => sin (t * th)) 0 1 (cosc th).
Proof.
unfold sinc, cosc; destruct (Req_EM_T th 0) as [->|h]; split.
- apply (is_RInt_ext (fun _ => 1)); [intros; now rewrite Rmult_0_r, cos_0|].
  replace 1 with (scal (1 - 0) 1) at 2 by (unfold scal; simpl; unfold mult; simpl; ring).
  apply (is_RInt_const (V := R_NormedModule)).
- apply (is_RInt_ext (fun _ => 0)); [intros; now rewrite Rmult_0_r, sin_0|].
  replace 0 with (scal (1 - 0) 0) at 2 by (unfold scal; simpl; unfold mult; simpl; ring).
  apply (is_RInt_const (V := R_NormedModule)).
- replace (sin th / th) with (minus (sin (1 * th) / th) (sin (0 * th) / th)).
  2:{ unfold minus, plus, opp; simpl. rewrite Rmult_1_l, Rmult_0_l, sin_0. field; assumption. }
  apply (is_RInt_derive (fun t => sin (t * th) / th)).
  + intros t _; auto_derive; [exact I | field; assumption].
  + intros t _; apply (ex_derive_continuous (fun t => cos (t * th))); auto_derive; exact I.
- replace ((1 - cos th) / th) with (minus (- cos (1 * th) / th) (- cos (0 * th) / th)).
  2:{ unfold minus, plus, opp; simpl. rewrite Rmult_1_l, Rmult_0_l, cos_0. field; assumption. }
  apply (is_RInt_derive (fun t => - cos (t * th) / th)).
  + intros t _; auto_derive; [exact I | field; assumption].
  + intros t _; apply (ex_derive_continuous (fun t => sin (t * th))); auto_derive; exact I.
Qed.

(* U1: ||R(th) z - z||^2 = (2 sin(th/2))^2 ||z||^2, at most (2 ||z||)^2; the tangent has norm |th| ||z|| *)
Theorem chord th x1 x2 :
  (rot1 th x1 x2 - x1) ^ 2 + (rot2 th x1 x2 - x2) ^ 2 = (2 * sin (th / 2)) ^ 2 * (x1 ^ 2 + x2 ^ 2) /\
  (rot1 th x1 x2 - x1) ^ 2 + (rot2 th x1 x2 - x2) ^ 2 <= 2 ^ 2 * (x1 ^ 2 + x2 ^ 2) /\
  (- th * x2) ^ 2 + (th * x1) ^ 2 = th ^ 2 * (x1 ^ 2 + x2 ^ 2).
Proof.
assert (h := sin2_cos2 (th / 2)); unfold Rsqr in h.
assert (e : (rot1 th x1 x2 - x1) ^ 2 + (rot2 th x1 x2 - x2) ^ 2 = (2 * sin (th / 2)) ^ 2 * (x1 ^ 2 + x2 ^ 2)).
{ unfold rot1, rot2. replace th with (2 * (th / 2)) by field.
  rewrite sin_2a, cos_2a; replace (2 * (th / 2) / 2) with (th / 2) by field.
  set (s := sin (th / 2)) in *; set (c := cos (th / 2)) in *.
  replace (c * c) with (1 - s * s) by lra.
  replace (((1 - s * s - s * s) * x1 - 2 * s * c * x2 - x1) ^ 2 + (2 * s * c * x1 + (1 - s * s - s * s) * x2 - x2) ^ 2)
    with (4 * s * s * (s * s + c * c) * (x1 ^ 2 + x2 ^ 2)) by ring.
  rewrite h; ring. }
repeat split; [exact e | rewrite e | ring].
apply Rmult_le_compat_r; [nra|]. assert (0 <= cos (th / 2) * cos (th / 2)) by nra. nra.
Qed.
(* X7: R(th) - I = 2 sin(th/2) [- sin(th/2) I + cos(th/2) J] *)
Theorem half_angle th x1 x2 :
  let s := sin (th / 2) in let c := cos (th / 2) in
  rot1 th x1 x2 - x1 = 2 * s * (- s * x1 - c * x2) /\ rot2 th x1 x2 - x2 = 2 * s * (- s * x2 + c * x1).
Proof.
intros s c. assert (h := sin2_cos2 (th / 2)); unfold Rsqr in h; fold s c in h.
unfold rot1, rot2; replace th with (2 * (th / 2)) by field; rewrite sin_2a, cos_2a; fold s c.
split; replace (c * c) with (1 - s * s) by lra; ring.
Qed.
(* U22: the two-key example has tangent 1/4 at 0 *)
Theorem figure_tangent : is_derive (fun th => / (1 + exp (- sin th)) - 1 / 2) 0 (1 / 4).
Proof.
auto_derive.
- assert (h := exp_pos (- sin 0)); repeat split; lra.
- rewrite sin_0, cos_0, Ropp_0, exp_0; field.
Qed.
