// Package timejudge decides whether a message has a time in the future, or our own clock is behind. It is for brokers that
// accept any time (OwnerConfig.JudgeTimes of package analyzer).
//
// It reads no clock: every time is an argument. For each producer of the last minute it keeps only when its newest message
// came, and the time of that message. If there are at least three producers and more than half of them are ahead, our clock
// is behind.
package timejudge
