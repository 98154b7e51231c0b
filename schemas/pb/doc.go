// Package pb puts decisions, claims and heartbeats into the protobuf messages of floodgate.proto, and reads them back
// within bounds. Only the two ends of the Kafka link import it, so that a server which only embeds a gate does not link
// protobuf.
//
//	schemas.Decision ──AppendDecision──▶ bytes ──Decode──▶ Record ──▶ schemas.Decision
//
// The messages of the state topic are defined and generated here, too.
package pb

//go:generate go run github.com/bufbuild/buf/cmd/buf@v1.75.0 generate
