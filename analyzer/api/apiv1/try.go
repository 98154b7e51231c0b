package apiv1

import "time"

// TryRequest is the body of POST /v1/try: would these requests pass? Nothing is counted.
type TryRequest struct {
	Callers  []Caller `json:"callers"` // of one request: at least one
	Resource string   `json:"resource,omitempty"`
	Status   int      `json:"status,omitempty"` // 0: 200
	Cost     int64    `json:"cost,omitempty"`   // of each request; what its server declares, where requests in flight hold
	Count    int64    `json:"count,omitempty"`  // so many equal requests, one after the other; 0: 1
	Rules    string   `json:"rules,omitempty"`  // a rules file to try instead of the one in force
}

// TryAnswer is the answer of POST /v1/try.
type TryAnswer struct {
	Passes   bool        `json:"passes"`   // all requests pass, for all callers
	Admitted int64       `json:"admitted"` // so many of the requests pass before the first that does not
	Closes   bool        `json:"closes"`   // after them, some caller is closed
	Sentence string      `json:"sentence"`
	Callers  []TryCaller `json:"callers"`
}

// TryCaller is what the rules would do to one caller.
type TryCaller struct {
	At       At        `json:"at"`
	Caller   Caller    `json:"caller"`
	Passes   bool      `json:"passes"`
	Admitted int64     `json:"admitted"`
	Rules    []TryRule `json:"rules"` // of the caller's kind
}

// TryRule is what one rule would do to one caller.
type TryRule struct {
	Rule      string    `json:"rule"`
	Version   string    `json:"version"`
	Mode      string    `json:"mode"`
	Counts    bool      `json:"counts"` // the rule counts such a request
	Weight    int64     `json:"weight"` // of all the requests under the rule
	Before    int64     `json:"before"` // weight in the window
	After     int64     `json:"after"`
	Limit     int64     `json:"limit"`
	Capacity  int64     `json:"capacity"`
	Unlimited bool      `json:"unlimited"`
	Admitted  int64     `json:"admitted"` // so many of the requests pass
	Closed    bool      `json:"closed"`   // it closes the caller already
	Closes    bool      `json:"closes"`   // the requests would close the caller
	CloseAt   time.Time `json:"close_at,omitzero"`
	Until     time.Time `json:"until,omitzero"` // of the closure that holds, or that would follow
	Nth       int64     `json:"nth,omitempty"`

	RoomBefore *Room `json:"room_before,omitempty"` // of a rule with holds: all requests that pass are in flight until the trial ends
	RoomAfter  *Room `json:"room_after,omitempty"`
}
