package sidecar

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/schemas"
	"github.com/509da70d/floodgate/schemas/gateview"
)

// PathCaller tells people what the gates hold about a caller: see Handler.
const PathCaller = "/caller"

// serveCaller answers GET /caller?caller=kind:id.
func serveCaller(set *gate.Set, w http.ResponseWriter, r *http.Request) {
	c := canonical(set, r.URL.Query().Get("caller"))
	if err := c.Validate(); err != nil {
		http.Error(w, "parameter caller: "+err.Error()+"; want caller=kind:id", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(view(set, c, time.Now())) // whoever asked may be gone
}

// canonical returns the caller of kind:id as decisions write it: an IPv6 address becomes its network, and an address its caller of kind
// net or asn. An id that is hashed with a secret must be its hash already.
func canonical(set *gate.Set, text string) schemas.Caller {
	kind, id, _ := strings.Cut(text, ":")
	if addr, err := netip.ParseAddr(id); err == nil && schemas.OfAddress(kind) {
		id = set.IDs().AddrID(kind, addr)
	}
	return schemas.Caller{Kind: kind, ID: id}
}

// view returns what the gates hold about a caller.
func view(set *gate.Set, c schemas.Caller, now time.Time) gateview.Caller {
	st := set.StatusAt(now)
	v := gateview.Caller{
		Kind: c.Kind, ID: c.ID, Now: now.UTC(), Mode: st.Mode.String(), Policy: st.Policy.String(), Decisions: []gateview.Decision{},
		Cold: st.Cold, Fresh: st.Fresh, Stale: st.Stale, AgeNS: int64(st.Age), Dropped: st.Full,
	}
	if !utf8.ValidString(c.ID) {
		v.IDBase64 = []byte(c.ID)
	}
	for _, h := range set.Holds(c, now) {
		d := gateview.Decision{
			Rule: h.Rule, Mode: h.Mode.String(), CloseAt: h.CloseAt.UTC(), Until: h.Until.UTC(), Early: h.Early, Share: h.Share,
			InForce: h.InForce(now), Ignored: h.Ignored, Limit: h.Limit, WindowNS: int64(h.Window),
			Partition: h.Partition.Partition, Freshness: h.Partition.Freshness.String(), Epoch: h.Partition.Epoch,
			Watermark: h.Partition.Watermark, LagNS: int64(h.Partition.Lag),
		}
		v.Decisions = append(v.Decisions, d)
		v.Refused = v.Refused || d.InForce && !h.Share && h.Mode == schemas.ModeEnforce && st.Mode == gate.Enforce
	}
	return v
}
