// Package supply tests what the operator is built from and runs: its modules, their updates and known vulnerabilities, and its images.
package supply
