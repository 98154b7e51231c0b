// Package policy decides when a caller's gate closes, and until when. It is pure: it is told what a window counts and
// returns what follows.
//
//	window.Count ──Step──▶ Closure, Change ──▶ schemas.Decision
//
// A close is the step from open to closed. While closed, more counted weight may move Until later, which is not a new
// close. The n-th close in a row lasts longer where the rule escalates.
package policy
