package analyzer

import (
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/509da70d/floodgate/schemas"
)

// maxNamedClocks is how many producers an analyzer names in its log.
const maxNamedClocks = 100

// clockNames logs, once for each producer, that its clock is ahead of the brokers'. This can be seen only where the broker sets a message's
// time (kafkaio.AppendTime). The owners of an analyzer share one. Any goroutine may use it.
type clockNames struct {
	logger *slog.Logger

	mu    sync.Mutex
	named map[schemas.ProducerID]bool // guarded by mu
}

func newClockNames(l *slog.Logger) *clockNames {
	return &clockNames{logger: l, named: make(map[schemas.ProducerID]bool)}
}

// name logs a producer, unless it was logged before.
func (c *clockNames) name(id schemas.ProducerID, ahead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.named[id] || len(c.named) >= maxNamedClocks {
		return
	}
	c.named[id] = true
	c.logger.Error("a server's clock is ahead of the brokers': its closures begin and end early", "producer", hex.EncodeToString(id[:]), "ahead", ahead)
	if len(c.named) == maxNamedClocks {
		c.logger.Error("naming no more servers whose clocks are ahead", "named", maxNamedClocks)
	}
}
