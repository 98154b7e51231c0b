package filelog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/509da70d/floodgate/store/kafkaio"
)

// topic is the partitions of a topic, and what messages it takes.
type topic struct {
	partitions []*partition
	maxMessage int
	maxAhead   time.Duration // 0: not bounded
}

// load opens all partitions.
func (l *Log) load() (err error) {
	d := l.options.disk
	if err := d.makeDir(l.dir); err != nil {
		return err
	}
	if err := d.syncDir(filepath.Dir(l.dir)); err != nil && !errors.Is(err, fs.ErrPermission) { // whoever may not read it has not made l.dir
		return err
	}
	path := filepath.Join(l.dir, pointsName)
	if l.points, err = readFile(d, path); err != nil {
		return err
	}
	durable, err := parsePoints(l.points)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	names, err := d.list(l.dir)
	if err != nil {
		return err
	}
	exists, topics := make(map[string]bool), make(map[string]bool) // directories of partitions, and their topics
	for _, name := range names {
		exists[name] = true
		if topic, _, ok := splitName(name); ok {
			topics[topic] = true
		}
	}
	for name := range durable { // a topic of which all are missing was deleted; else one that is missing is damage
		topic, _, ok := splitName(name)
		exists[name] = exists[name] || ok && topics[topic]
	}
	for name := range exists {
		topic, n, ok := splitName(name)
		switch {
		case !exists[name]:
		case ok && n == 0:
			for exists[partitionName(topic, n)] {
				n++
			}
			if err := l.create(topic, n, durable); err != nil {
				return err
			}
		case ok && !exists[partitionName(topic, n-1)]: // a crash while they were made, or foreign
			l.options.Logger.Warn("ignored a directory of the log: there is none of the partition before", "dir", filepath.Join(l.dir, name))
		}
	}
	return d.syncDir(l.dir)
}

// partitionName is the directory of a partition, as Kafka names it.
func partitionName(topic string, n int) string { return topic + "-" + strconv.Itoa(n) }

// splitName returns the topic and the number of a partition's directory.
func splitName(name string) (topic string, n int, ok bool) {
	i := strings.LastIndexByte(name, '-')
	if i <= 0 {
		return "", 0, false
	}
	n, err := strconv.Atoi(name[i+1:])
	return name[:i], n, err == nil && n >= 0 && partitionName(name[:i], n) == name
}

// create opens partitions 0 to n-1 of a topic, and makes those that are missing. The caller makes their names durable, and holds syncing.
func (l *Log) create(name string, n int, durable map[string]point) error {
	t := l.topics[name]
	if t == nil {
		t = &topic{maxMessage: kafkaio.MaxMessage}
		l.topics[name] = t
	}
	for p := len(t.partitions); p < n; p++ {
		dir := filepath.Join(l.dir, partitionName(name, p))
		if err := l.options.disk.makeDir(dir); err != nil {
			return err
		}
		at, ok := durable[partitionName(name, p)]
		if !ok {
			at, l.unlisted = unknown, true
		}
		opened, err := openPartition(l.options.disk, dir, at, l.options.SegmentBytes, l.options.Logger)
		if err != nil {
			return err
		}
		t.partitions = append(t.partitions, opened)
	}
	return nil
}

// EnsureTopics makes the topics and partitions that are missing, and returns the names of the topics that it made. For as long as the Log is
// open, they take the messages that max.message.bytes and kafkaio.SettingAhead of the specs allow; other settings have no effect.
func (l *Log) EnsureTopics(_ context.Context, specs ...kafkaio.TopicSpec) (created []string, err error) {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	for _, spec := range specs {
		isNew, err := l.ensure(spec)
		if err != nil {
			return created, fmt.Errorf("create topic %s: %w", spec.Name, err)
		}
		if isNew {
			created = append(created, spec.Name)
		}
	}
	if l.unlisted { // a partition has a recovery point, and a name on disk, before it has records
		err = l.sync()
	}
	return created, err
}

// ensure makes a topic as it is wanted.
func (l *Log) ensure(spec kafkaio.TopicSpec) (isNew bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false, kafkaio.ErrClosed
	}
	isNew = l.topics[spec.Name] == nil
	if err := l.create(spec.Name, spec.Partitions, nil); err != nil {
		return false, err
	}
	t, settings := l.topics[spec.Name], spec.Config()
	if n, err := strconv.Atoi(settings["max.message.bytes"]); err == nil {
		t.maxMessage = n
	}
	if ms, err := strconv.ParseInt(settings[kafkaio.SettingAhead], 10, 64); err == nil {
		t.maxAhead = time.Duration(ms) * time.Millisecond
	}
	return isNew, nil
}

// Partitions returns how many partitions a topic has.
func (l *Log) Partitions(_ context.Context, name string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[name]
	switch {
	case l.closed:
		return 0, kafkaio.ErrClosed
	case t == nil:
		return 0, failed("partitions", name, -1, kafkaio.Unsent, kafkaio.ErrNoTopic)
	}
	return len(t.partitions), nil
}

// find returns a partition, and its topic as it is now.
func (l *Log) find(name string, n int) (topic, *partition, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[name]
	switch {
	case l.closed:
		return topic{}, nil, kafkaio.ErrClosed
	case t == nil || n < 0 || n >= len(t.partitions):
		return topic{}, nil, kafkaio.ErrNoTopic
	}
	return *t, t.partitions[n], nil
}
