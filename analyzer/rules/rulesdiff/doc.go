// Package rulesdiff says what differs between two versions of the rules: by rule, what was added and removed and which fields
// changed, and whether counts stay. It compares what the files mean: comments and layout are no difference, nor is a value that
// one file writes and the other leaves to its default. It is pure.
package rulesdiff
