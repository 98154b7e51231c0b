// Package pb encodes decisions, claims and heartbeats as the protobuf messages of floodgate.proto, and decodes them within the
// bounds of schemas/DECISIONS.md. Only the two ends of the Kafka link import it, so that a server that embeds a gate without a
// link does not link protobuf.
//
//	schemas.Decision ──AppendDecision──▶ bytes ──Decode──▶ Record ──▶ schemas.Decision
//
// The package also holds the messages of the state topic, and those of the control topic.
//
//	schemas.Control ──AppendControl──▶ bytes ──DecodeControl──▶ schemas.Control
package pb

//go:generate go run github.com/bufbuild/buf/cmd/buf@v1.75.0 generate
