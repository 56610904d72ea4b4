// Package rendered keeps rendered plans compressed on disk under the digest of their inputs (law 16), so that repair
// needs no render and no network. It is a cache: what is lost or damaged is simply missing, and whoever asks renders
// again. It trusts nothing that it reads from the disk further than a room's output is trusted, follows no links, and
// touches nothing outside its folder.
package rendered
