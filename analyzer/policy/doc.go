// Package policy decides when a caller's gate closes, and until when. It is pure: it gets what a window counts, and returns
// the new closure.
//
//	window.Count ──Step──▶ Closure, Transition ──▶ schemas.Decision
//
// It also predicts closes, so that gates close when a window becomes full, and not a lag later. Predictions change no count and no closure:
//
//	entries ──Pace.Add──▶ Pace ──Rate──▶ Outlook.Predict ──Cross──▶ Announced
//
// A close is the step from open to closed. While the caller is closed, more weight may move Until later; that is not a new
// close. The n-th close in a row lasts longer where the rule escalates.
//
// A gate that has closed early reports each request that it blocks as blocked early. Such a request was made: if it and the admitted weight
// fill the window, a synchronous limiter would have closed, and so does StepDemand. If they do not, the early close ends by itself
// (Lag.Hold).
//
// A caller that keeps asking for more than its limit gets a share: permits for a period. Each gate takes a part of them, by the demand that
// it has measured itself.
//
//	entries ──Asked──▶ Sharing ──Step──▶ announced, renewed, ended ──Share──▶ schemas.Share
//
// All arithmetic of predictions is in integers, so that every processor predicts the same.
package policy
