package api

import "fmt"

// Role says what a token may do. Each role may do what the roles before it may. The zero value may do nothing.
type Role uint8

// Roles.
const (
	RoleRead    Role = 1 + iota // look, explain, try
	RoleOperate                 // and close, open, limit, reset and undo
	RoleAdmin                   // and put rules into mode shadow
)

// String returns the role as files of tokens have it, or "none".
func (r Role) String() string {
	switch r {
	case RoleRead:
		return "read"
	case RoleOperate:
		return "operate"
	case RoleAdmin:
		return "admin"
	}
	return "none"
}

// ParseRole undoes String.
func ParseRole(s string) (Role, error) {
	for r := RoleRead; r <= RoleAdmin; r++ {
		if s == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("got role %.32q, want read, operate or admin", s)
}
