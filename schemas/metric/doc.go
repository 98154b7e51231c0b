// Package metric describes Prometheus metrics as numbers in a snapshot of statistics: each has a name, a help text and a
// function that reads it from the snapshot. The collectors of gate and analyzer are made of them.
//
// All names begin with floodgate_. No label has a value that clients choose.
package metric
