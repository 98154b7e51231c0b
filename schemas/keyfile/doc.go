// Package keyfile reads files that name secrets by their SHA-256: a secret that is presented is recognised, and a reader of the file
// learns none.
//
//	NAME [WORD ...] SHA256      a line; Format says which words
//	Open ──▶ File ── Find(secret) ──▶ the line's Entry
//
// The file is read again when it changes. A file that cannot be read, or that has no line that is right, changes nothing. One that
// has a mistake beside right lines adds nothing, and revokes what it does not name. The log says so, and Refused.
package keyfile
