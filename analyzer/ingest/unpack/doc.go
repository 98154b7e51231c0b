// Package unpack reads logs that are compressed by gzip, bzip2, xz or zstd, as one stream of plain text.
//
// The first bytes of the data say how it is compressed, whatever the file is called. Several compressed streams in a row are
// one text. Data that is cut short or damaged is an error that says at which byte of the compressed data reading stopped.
//
// # Bounds
//
// A stream says how much memory reading it takes. More than 128 MiB is refused with ErrWindow before it is allocated. For
// xz this package does that itself, because the library has no such limit: see windowGuard.
//
// # Chosen input
//
// Clients choose the lines of a log, and its first bytes where the server puts what they send first. They cannot make plain
// text look like gzip, xz or zstd, whose first bytes no server writes into a log. The ten first bytes of bzip2 are printable.
package unpack
