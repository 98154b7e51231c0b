package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/509da70d/floodgate/analyzer/api/apiv1"
	"github.com/509da70d/floodgate/analyzer/explain"
	"github.com/509da70d/floodgate/cmd/floodgate/command"
	"github.com/509da70d/floodgate/schemas/gateview"
)

// maxGateAnswer bounds a sidecar's answer, in bytes.
const maxGateAnswer = 1 << 20

// compareGate asks a sidecar what it holds of the caller of an explanation, and compares.
func compareGate(ctx context.Context, base string, e *apiv1.Explanation) (*apiv1.GateComparison, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, command.Usagef("--sidecar: got %q, want a URL such as http://127.0.0.1:9091", base)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/caller?"+url.Values{"caller": {callerText(e.Caller)}}.Encode(), http.NoBody)
	if err != nil {
		return nil, command.Usagef("--sidecar: %w", err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("explain: ask the sidecar: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxGateAnswer))
	if err != nil {
		return nil, fmt.Errorf("explain: ask the sidecar: %w", err)
	}
	var held gateview.Caller
	if err := json.Unmarshal(text, &held); answer.StatusCode != http.StatusOK || err != nil {
		return nil, fmt.Errorf("explain: the sidecar at %s answered with status %s, want what it holds of a caller: is it a floodgate sidecar?", base, answer.Status)
	}
	return explain.Compare(e, &held, base), nil
}
