// Package webhook sends one message to one URL, signed as Standard Webhooks say, and says what came of it. It tries once: who
// calls it decides about retries.
//
//	Message{ID, Body} ──sign──▶ POST ──▶ Answer{Status, RetryAfter, Body, Err}
//	                             │
//	                             └── each address that is dialled passes Allowed.Check first
//
// Its nouns: a Secret is a key that signs; while it is replaced, a Client has two and signs by both. A Client speaks to one URL.
// Allowed are the networks that may be dialled although they are not public.
//
// # Hostile receivers
//
// A receiver is somebody else's program, and the name in its URL is resolved by somebody else's DNS server. So:
//   - An address is checked when it is dialled, after the name was resolved. Addresses that are not public, such as private,
//     loopback and link-local ones and those of metadata services, are refused unless Allowed has them. There is no proxy,
//     because a proxy would resolve and dial unchecked.
//   - A redirect is not followed, and is a failure.
//   - An attempt has one deadline for all of it: to resolve, dial, send, and read the answer.
//   - An answer that switches protocols (101) is a failure, and its connection is closed unread: no deadline would end that.
//   - At most 16 KiB of an answer's header and 64 KiB of its body are read, and no body is unpacked.
//   - No error repeats the URL, because the URLs of chat services are secret.
package webhook
