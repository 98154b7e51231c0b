// Package asn says which autonomous system announces an address: whose network it is in, such as that of a hoster or of a provider
// of homes. It reads a database in MaxMind's format (.mmdb), such as GeoLite2-ASN or DB-IP's ASN Lite, whose records have
// autonomous_system_number.
//
//	Open ──▶ File ── ID(addr) ──▶ AS64500        for schemas.IDs.ASN
//	          └── Watch: reads the file again when it changes
//
// The networks of the file are copied into a trie in memory, so that a look-up waits for nothing, allocates nothing, and needs the
// file no more. Programs that write the file anew may do so in any way. A file that cannot be read leaves the networks as they are.
//
// # Chosen input
//
// Clients choose addresses: a look-up has at most 4 steps, or 16 for IPv6. Who writes the file chooses its content: it has at most
// MaxSize bytes, its networks are at most as many as a tree of its size has, and what is wrong with it is an error.
package asn
