package apiv1

// Problem is an error as RFC 9457 has it, with what was got and what was wanted.
type Problem struct {
	Type    string `json:"type"` // about:blank
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail,omitempty"`
	Pointer string `json:"pointer,omitempty"` // where in the body (RFC 6901), or the parameter's name
	Got     string `json:"got,omitempty"`
	Want    string `json:"want,omitempty"`
}

// Error implements error.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Title + ": " + p.Detail
	}
	return p.Title
}
