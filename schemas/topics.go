package schemas

// TopicNames are the names of floodgate's topics in Kafka. FRAME.md says what is in Requests, and DECISIONS.md what is in
// Decisions and State. Rejects has the messages of Requests that an analyzer could not read, for people to look at. Control has what
// people have decided by hand, see Control; empty: nobody can. Events has what has happened, see package event; empty: nobody writes it.
type TopicNames struct {
	Requests, Decisions, State, Rejects, Control, Events string
}

// DefaultTopicNames returns the names of an installation that has a Kafka cluster of its own: floodgate.requests and so on.
func DefaultTopicNames() TopicNames { return TopicNamesOf("floodgate") }

// TopicNamesOf returns the names that begin with a prefix: PREFIX.requests and so on.
func TopicNamesOf(prefix string) TopicNames {
	return TopicNames{
		Requests:  prefix + ".requests",
		Decisions: prefix + ".decisions",
		State:     prefix + ".state",
		Rejects:   prefix + ".rejects",
		Control:   prefix + ".control",
		Events:    prefix + ".events",
	}
}
