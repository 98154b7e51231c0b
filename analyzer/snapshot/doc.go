// Package snapshot reads and writes the topic of snapshots, state[p]: all rows of a partition, written in cycles and in pieces.
//
//	begin(offset 100, senders, rules) │ row(a, as of 100) │ row(b, as of 164) │ … │ end
//
// A cycle begins with the senders of the dedupe table, as they were at an offset of requests[p], with the rules that counted there,
// and with the last place of the control topic that was applied. Then follow the rows, each as it was at its own, later offset (and
// place: several may stand at one offset), and an end, which says how many rows there were. A reader folds the log from the offset of
// the begin. As soon as it has folded up to the offset of a row, it replaces that row by the row of the snapshot.
//
// A Reader finds snapshots, a Writer writes them. Rows are bytes here: package fold knows what they mean.
package snapshot
