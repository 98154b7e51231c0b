// Package floods makes access logs of a forge that crawlers flood, and says what a limit would have done to people: for the tests of the
// recipes. Its nouns: a Flood is who asks, how much and for how long. A Request is a line of the log. A Result is what passes of a flood,
// and who is refused, if some requests are refused.
//
// The same Flood always makes the same requests. Addresses are in 240.0.0.0/4 and networks of providers have private numbers, so that no
// log is about anybody.
package floods
