package api

import (
	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/schemas"
)

// brakes returns the mode records in force, the newest first: what people have put into shadow, whatever its file says. A record that some
// owners have not applied yet has the state waiting.
func (c *call) brakes() []apiv1.Action {
	list := []apiv1.Action{}
	now := c.now().UnixNano()
	modes := c.backend.Records.Modes()
	for i := range modes {
		if r := &modes[i]; r.Until > now {
			list = append(list, c.record(r, c.unapplied(r)))
		}
	}
	return list
}

// effective returns the mode of a rule that holds now, and the newest of brakes that has put it into shadow.
func effective(rule, mode string, brakes []apiv1.Action) (string, *apiv1.Action) {
	for i := range brakes {
		if brakes[i].Rule == "" || brakes[i].Rule == rule {
			return schemas.ModeShadow.String(), &brakes[i]
		}
	}
	return mode, nil
}
