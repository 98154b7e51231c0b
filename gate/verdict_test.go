package gate

import "testing"

// TestTheStricterFindingWins, in either order: a rule that blocks before one in shadow, and then the one that ends later.
func TestTheStricterFindingWins(t *testing.T) {
	caller := new(closedCaller)
	none := finding{}
	shadow, longShadow := finding{caller: caller, until: 5}, finding{caller: caller, until: 9}
	enforced, longEnforced := finding{caller: caller, until: 5, enforced: true}, finding{caller: caller, until: 9, enforced: true}
	for name, test := range map[string]struct{ a, b, want finding }{
		"one is open":                         {none, shadow, shadow},
		"both are open":                       {none, none, none},
		"both in shadow":                      {shadow, longShadow, longShadow},
		"both enforced":                       {enforced, longEnforced, longEnforced},
		"enforced before a longer shadow":     {enforced, longShadow, enforced},
		"enforced before a shadow as long":    {enforced, shadow, enforced},
		"enforced for longer than the shadow": {longEnforced, shadow, longEnforced},
	} {
		for _, pair := range [][2]finding{{test.a, test.b}, {test.b, test.a}} {
			got := pair[0]
			if got.merge(&pair[1]); got != test.want {
				t.Errorf("%s: got %+v, want %+v", name, got, test.want)
			}
		}
	}
}
