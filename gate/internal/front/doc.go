// Package front is what the gates before HTTP servers and before gRPC servers have in common: Proxies finds the address
// that a request came from past the proxies that forwarded it, Join makes composite ids, and WholeSeconds says how long
// to wait.
package front
