// Package keyfile reads files that name secrets by their SHA-256: a secret that is presented is recognised, and a reader of the file
// learns none.
//
//	NAME [WORD ...] SHA256      a line; Format says which words
//	Open ──▶ File ── Find(secret) ──▶ the line's Entry
//
// The file is read again when it changes. A file that cannot be read, or that has no valid line, changes nothing. A file that has valid
// lines and a mistake adds nothing, and revokes the secrets that it does not name. The log and Refused then say why.
package keyfile
