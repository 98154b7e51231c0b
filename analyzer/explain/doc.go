// Package explain says whether a caller is closed, by what, until when and why. It gives one verdict, the numbers behind it, and one
// plain sentence for people. It is pure. Its input is what the owner of the caller's partition has counted (a fold.Look), the
// decisions that gates hold (from a board), and how far the partition has been counted. From these it makes the JSON of package apiv1.
// Its functions may be called from any goroutine.
//
// Ids and reasons are text that strangers have chosen. In sentences they are printable ASCII, as package printable writes them.
package explain
