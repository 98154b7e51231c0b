// Package front contains what gates before HTTP servers and before gRPC servers have in common. Client finds the address
// of the client behind the proxies that forwarded a request. Join makes composite ids. Repeated detects a field that was
// sent twice. WholeSeconds rounds a time to wait.
//
// A forged X-Forwarded-For costs nothing: the field is read from its end, up to the client's address, which a trusted
// proxy added. All that the client wrote stands before that address and is not read. Only a trusted proxy can make
// the part that is read long, and then its cost grows with its length.
package front
