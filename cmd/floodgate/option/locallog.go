package option

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/store/filelog"
	"github.com/509da70d/floodgate/store/kafkaio"
)

// LocalLog is the directory of the log that floodgate serve keeps in its --data.
func LocalLog(data string) string { return filepath.Join(data, "log") }

// LocalRules is the file of rules that floodgate serve has unless --rules names another.
func LocalRules(data string) string { return filepath.Join(data, "rules.yaml") }

// RulesOf returns --rules. If that is empty, and --data is that of a floodgate serve, it returns the rules of this serve.
func RulesOf(rules, data string) string {
	if rules == "" && data != "" && checkLocalLog(data) == nil {
		return LocalRules(data)
	}
	return rules
}

// checkLocalLog returns an error unless a directory has the log of a floodgate serve.
func checkLocalLog(data string) error {
	info, err := os.Stat(LocalLog(data))
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", LocalLog(data))
	}
	return err
}

// ReadLog is a log that a subcommand only reads.
type ReadLog interface {
	kafkaio.Fetcher
	Partitions(ctx context.Context, topic string) (int, error)
}

// CheckLog is Check of a subcommand that also reads the log of a floodgate serve, in its --data. The flags must name one of the two logs.
func (k *Kafka) CheckLog(data string) error {
	if len(k.Brokers) == 0 && data == "" {
		return command.Usagef("--brokers, --data: got neither, want the brokers of a Kafka cluster or the directory of a floodgate serve")
	}
	var missing error
	if data != "" {
		missing = checkLocalLog(data)
	}
	switch {
	case len(k.Brokers) == 0 && missing != nil:
		return command.Usagef("--brokers: got none, and --data %s has no log of a floodgate serve (%w); want one of the two", data, missing)
	case len(k.Brokers) == 0:
		return k.nameTopics()
	case data != "" && missing == nil:
		return command.Usagef("--brokers, --data: got %s, and the log in %s; want one of the two", strings.Join(k.Brokers, ","), LocalLog(data))
	}
	return k.Check()
}

// OpenLog opens the log that CheckLog has found. The caller calls shut.
func (k *Kafka) OpenLog(data string) (log ReadLog, shut func(), err error) {
	if len(k.Brokers) > 0 {
		client, err := k.Client()
		if err != nil {
			return nil, nil, err
		}
		return client, client.Close, nil
	}
	r, err := filelog.OpenReadOnly(LocalLog(data))
	if err != nil {
		return nil, nil, err
	}
	return r, func() { _ = r.Close() }, nil // it was only read
}
