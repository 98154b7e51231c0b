package gatecaddy

import (
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
)

// pool has the gates of all configurations that run, by the digest of their settings.
var pool = caddy.NewUsagePool() //nolint:gochecknoglobals // it outlives each configuration, as Caddy's documentation advises

// pooledGates returns how many gates there are.
func pooledGates() (n int) {
	pool.Range(func(_, _ any) bool {
		n++
		return true
	})
	return n
}

// gates are a Set and a Recorder with their link. Several configurations have the same gates, while one of them replaces another.
type gates struct {
	set      *gate.Set
	recorder *record.Recorder
	link     *kafkalink.Link
	logs     *logs

	mu    sync.Mutex // protects what follows
	users []*App     // that run, in the order in which they started
}

// openGates returns gates that follow what the settings name. This is the place for another kind of link.
func openGates(s settings, a *App) (*gates, error) {
	g := &gates{recorder: record.New(record.Options{Responses: a.Responses}), logs: newLogs(a.logger)}
	logger := g.logs.logger()
	g.set = gate.New(gate.Options{Mode: a.mode(), Stale: s.policy, IDs: s.ids, Logger: logger})
	s.kafka.Logger = logger
	link, err := kafkalink.Open(g.set, g.recorder, s.kafka)
	if err != nil {
		return nil, err
	}
	g.link = link
	return g, nil
}

// Destruct implements caddy.Destructor.
func (g *gates) Destruct() error {
	g.link.Close()
	return nil
}

// join makes an App the one whose mode and logger hold.
func (g *gates) join(a *App) { g.change(func() { g.users = append(g.users, a) }) }

// leave removes an App. Of those that stay, the last one holds: if a configuration fails to start, that is the one before.
func (g *gates) leave(a *App) {
	g.change(func() { g.users = slices.DeleteFunc(g.users, func(u *App) bool { return u == a }) })
}

func (g *gates) change(users func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	users()
	if n := len(g.users); n > 0 {
		last := g.users[n-1]
		g.logs.use(last.logger)
		g.set.SetMode(last.mode())
	}
}
