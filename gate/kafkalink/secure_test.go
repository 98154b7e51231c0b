package kafkalink_test

import (
	"fmt"

	"github.com/509da70d/floodgate/gate"
	"github.com/509da70d/floodgate/gate/kafkalink"
	"github.com/509da70d/floodgate/gate/record"
	"github.com/509da70d/floodgate/store/kafkaio/secure"
)

// A server logs in with its own user, over TLS. Secrets are files, which may be replaced while it runs.
func Example_secure() {
	o := secure.Options{
		TLS: true, CA: "/etc/floodgate/ca.pem",
		SASL: secure.ScramSHA512, User: "server", PasswordFile: "/etc/floodgate/password",
	}
	tls, sasl, err := o.Load()
	if err != nil {
		fmt.Println("the files are not there")
		return
	}
	set, rec := gate.New(gate.Options{}), record.New(record.Options{})
	link, err := kafkalink.Open(set, rec, kafkalink.Config{Brokers: []string{"kafka.internal:9093"}, TLS: tls, SASL: sasl})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer link.Close()
	// Output: the files are not there
}
