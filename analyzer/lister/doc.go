// Package lister lists the callers of a partition that an analyzer owns, while the owner goes on counting. A list has the first callers
// in some order, all callers, or the busiest ones.
//
// A list walks over the rows in pieces. Each piece is one question to the owner (analyzer.Analyzer.Ask), and stops counting for about
// pieceTime. Each partition has one walk at a time, which serves all queries that have come before it begins:
//
//	Top ─┐                                        ┌─▶ page of each query
//	Top ─┼─▶ waiting ─▶ walk: piece, piece, piece ─┤
//	Busy ┘   (≤ 64)         (one Ask each)         └─▶ kept, for the same query within a second
//
// Walks take the owner's time, at most a fifth of it: the next walk waits for four times as long as the last one stopped counting. An
// answer is given again to the same query for a second, or for fifty times as long as its walk stopped counting, if that is longer.
// So a list that somebody asks for each second takes a fiftieth of the owner's time.
//
// A list is exact for each row, as of the piece that has visited it. A row that changes after that keeps its place in the list. When the
// rules change, the walk begins again.
//
// Each page is a list of its own. If a caller's count grows between two pages, the caller may move to the page before, and then no page has
// it. The method Each lists every caller once that is counted from its beginning to its end.
//
// # Chosen input
//
// Clients choose the queries. At most maxQueries wait for a partition, a page has at most 1000 lines, and the answers that are
// kept have at most maxKept lines. The more queries a piece serves, the fewer rows it visits. Visiting a row does not allocate, so the
// owner makes no garbage. A list of all rows rests after each piece. Ids are compared, and never hashed.
package lister
