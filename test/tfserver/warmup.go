package tfserver

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// warmupFile is where a version has the requests that the server replays before the version is AVAILABLE, and maxRecords how many.
const (
	warmupFile = "assets.extra/tf_serving_warmup_requests"
	maxRecords = 1000
)

// castagnoli is the checksum of TFRecord.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func masked(data []byte) uint32 {
	sum := crc32.Checksum(data, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}

// Record is one record of a TFRecord file.
func Record(data []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	out = binary.LittleEndian.AppendUint32(out, masked(out))
	out = append(out, data...)
	return binary.LittleEndian.AppendUint32(out, masked(data))
}

// warmup reads the warm-up file of a version, where there is one. The toy model needs no warming: what counts is that a file which the real
// server refuses fails the load.
func warmup(folder string) error {
	path := filepath.Join(folder, warmupFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil // Warm-up data is optional.
	}
	for records := 1; len(raw) > 0; records++ {
		if len(raw) < 12 || binary.LittleEndian.Uint32(raw[8:]) != masked(raw[:8]) {
			return status.Errorf(codes.DataLoss, "corrupted record at %s", path)
		}
		size := binary.LittleEndian.Uint64(raw)
		if size > uint64(len(raw)-12) || len(raw)-12-int(size) < 4 { //nolint:gosec // Compared before.
			return status.Errorf(codes.DataLoss, "truncated record at %s", path)
		}
		data, rest := raw[12:12+size], raw[12+size:]
		if binary.LittleEndian.Uint32(rest) != masked(data) {
			return status.Errorf(codes.DataLoss, "corrupted record at %s", path)
		}
		if walk(data, func(protowire.Number, protowire.Type, []byte) {}) != nil {
			return invalid("Failed to parse warmup record: %s from %s", data, path)
		}
		if records > maxRecords {
			return invalid("Number of warmup records exceeds the maximum (%d) at %s", maxRecords, path)
		}
		raw = rest[4:]
	}
	return nil
}
