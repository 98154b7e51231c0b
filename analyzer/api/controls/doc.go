// Package controls follows the control topic: the control records of people, and which rules analyzers have noted. It keeps the newest
// 131,072 records in memory, so that the API can list them and recognise a request that comes twice.
//
// It applies nothing: owners do. Each owner reads the topic with a control.Follower of its own, because it goes on behind the last
// record that its partition has applied. To an owner, a topic that was made anew is the same topic. A Follower here forgets all of the
// old one.
package controls
