// Package sanitize makes a desired object acceptable to server-side apply, which refuses undeclared fields and
// duplicate keys in keyed lists (invariant 11): it drops the first and merges the second, and says so in warnings. The engine
// asks for it only after a refusal. Clean is pure; Cleaner reads the API server's OpenAPI documents and nothing else.
package sanitize
