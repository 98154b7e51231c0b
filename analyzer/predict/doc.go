// Package predict says when callers will be closed, so that gates learn of it before it happens. No count depends on it: the fold tells a
// Predictor what happened, takes plans for gates from it, and never reads its state.
//
//	canaries ──Measure──▶ lag ─────┐
//	entries ───Admitted, Refused──▶ trackers ──TakePlans──▶ Plan: an early closure, or a share
//	closes ────Changed──▶ Forecast │
//	rows ◀──────────read───────────┘
//
// A row has a tracker if closes of its rule are predicted, the lag is known, and the row is closed or at half of its limit or beyond. After
// each batch TakePlans predicts the next close of each row that had entries. Trackers, plans and the lag are not stored and not part of the
// digest. All of it is a function of the log. The package is pure: it does no I/O, and has no clock, no logger and no lock.
package predict
