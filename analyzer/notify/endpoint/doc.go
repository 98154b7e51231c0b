// Package endpoint is the settings of floodgate notify: where events go as webhooks, which of them, and in what form.
//
//	notify.yaml ──Parse──▶ Config{Endpoints} ──Wants──▶ which events an Endpoint gets
//	            ◀─Error─┘          ▲           ──Body───▶ what is sent of them
//	             line:col          └── Load also reads the files of secrets and URLs
//
// Its nouns: an Endpoint is a URL with a name. A Route says which events it gets. A Notice is what one message says: one event, or a
// digest of many. A file with a mistake gives no Config, and the settings in use stay.
//
// schemas/notify.schema.json describes the file, and editors can use it. Schema and loader agree on every file of testdata/notify,
// except for checks that a schema cannot express (the test lists them).
//
// # Chosen input
//
// Callers choose their ids, and so a part of each message. A template for a chat must escape them, therefore Parse fills each
// template with ids that hold quotes, backslashes, line breaks and control characters, and refuses one that then makes no JSON.
// A message has at most 256 KiB.
package endpoint
