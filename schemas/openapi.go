package schemas

import _ "embed"

//go:embed openapi.yaml
var openAPI []byte

// OpenAPI returns the description of the analyzer's HTTP API, version 1, in OpenAPI 3.1. Nobody may change it.
func OpenAPI() []byte { return openAPI }
