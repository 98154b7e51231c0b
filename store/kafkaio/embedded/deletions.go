package embedded

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeletionTime is how long the deletion of a topic takes. A request that creates a topic of the same name waits until then. The time is
// longer than a client's fetch waits for records (fetch.wait.max.ms of librdkafka, fetch.max.wait.ms of Apache Kafka's own client,
// kafkaio.DefaultMaxWait: 500 ms).
const DeletionTime = 600 * time.Millisecond

// deletions knows which topics were deleted less than DeletionTime ago. Apache Kafka ends the fetches that wait for records of a deleted
// topic, and takes a moment to delete it. So no reader continues in a new topic of the same name as if it were the old one. kfake lets
// those fetches wait.
type deletions struct {
	mu   sync.Mutex
	over map[string]time.Time // guarded by mu: when the deletion of a name is over
}

// slowDeletions makes a cluster take DeletionTime to delete a topic.
func slowDeletions(c *kfake.Cluster) {
	d := &deletions{over: make(map[string]time.Time)}
	c.ControlKey(int16(kmsg.DeleteTopics), func(r kmsg.Request) (kmsg.Response, error, bool) {
		if req, ok := r.(*kmsg.DeleteTopicsRequest); ok {
			d.begin(names(c, req), time.Now())
		}
		return nil, nil, false
	})
	c.ControlKey(int16(kmsg.CreateTopics), func(r kmsg.Request) (kmsg.Response, error, bool) {
		req, ok := r.(*kmsg.CreateTopicsRequest)
		if !ok {
			return nil, nil, false
		}
		for i := range req.Topics {
			if wait := d.left(req.Topics[i].Topic, time.Now()); wait > 0 {
				c.SleepControl(func() { <-time.After(wait) })
			}
		}
		return nil, nil, false
	})
}

// names returns the topics that a request names, by name or by id.
func names(c *kfake.Cluster, req *kmsg.DeleteTopicsRequest) []string {
	all := append([]string(nil), req.TopicNames...)
	for i := range req.Topics {
		if name := req.Topics[i].Topic; name != nil {
			all = append(all, *name)
		} else if info := c.TopicIDInfo(req.Topics[i].TopicID); info != nil {
			all = append(all, info.Topic)
		}
	}
	return all
}

func (d *deletions) begin(topics []string, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, over := range d.over {
		if !now.Before(over) {
			delete(d.over, name)
		}
	}
	for _, name := range topics {
		d.over[name] = now.Add(DeletionTime)
	}
}

// left returns how long the deletion of a name will take, 0 if it is over.
func (d *deletions) left(topic string, now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(d.over[topic].Sub(now), 0)
}
