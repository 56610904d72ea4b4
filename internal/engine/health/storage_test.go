package health

import "testing"

const noRule = "kstatus has no rule"

var storageSamples = []sample{
	{"new", "v1 PersistentVolumeClaim", ``, InProgress, "Pending", ""},
	{"pending", "v1 PersistentVolumeClaim", `status: {phase: Pending}`, InProgress, "Pending", ""},
	{"bound", "v1 PersistentVolumeClaim", `status: {phase: Bound}`, Current, "Bound", ""},
	{"bound and to be resized", "v1 PersistentVolumeClaim", `
status: {phase: Bound, conditions: [{type: FileSystemResizePending, status: "True"}]}`, Current, "Bound", ""},
	{"lost", "v1 PersistentVolumeClaim", `status: {phase: Lost}`, Failed, "Lost", "kstatus waits for a lost volume"},
	{"new", "v1 PersistentVolume", ``, InProgress, "Pending", noRule},
	{"available", "v1 PersistentVolume", `status: {phase: Available}`, Current, "Available", ""},
	{"bound", "v1 PersistentVolume", `status: {phase: Bound}`, Current, "Bound", ""},
	{"released", "v1 PersistentVolume", `status: {phase: Released}`, Current, "Released", ""},
	{"failed", "v1 PersistentVolume", `status: {phase: Failed, reason: RecyclerFailed}`, Failed, "RecyclerFailed", noRule},
	{"new", "storage.k8s.io/v1 VolumeAttachment", ``, InProgress, "NotAttached", noRule},
	{"attached", "storage.k8s.io/v1 VolumeAttachment", `status: {attached: true}`, Current, "Attached", ""},
	{
		"error", "storage.k8s.io/v1 VolumeAttachment", `status: {attached: false, attachError: {message: no}}`,
		InProgress, "AttachError", noRule,
	},
	{"class", "storage.k8s.io/v1 StorageClass", ``, Current, ReasonExists, ""},
	{"claim", "resource.k8s.io/v1 ResourceClaim", ``, Current, ReasonExists, ""},
	{"running", "storagemigration.k8s.io/v1beta1 StorageVersionMigration", `
status: {conditions: [{type: Running, status: "True"}]}`, InProgress, ReasonNotReady, noRule},
	{
		"done", "storagemigration.k8s.io/v1beta1 StorageVersionMigration", `
status: {conditions: [{type: Succeeded, status: "True", reason: StorageVersionMigrationSucceeded}]}`,
		Current, "StorageVersionMigrationSucceeded", "",
	},
	{"failed", "storagemigration.k8s.io/v1beta1 StorageVersionMigration", `
status: {conditions: [{type: Failed, status: "True"}]}`, Failed, "Failed", noRule},
}

func TestStorage(t *testing.T) { check(t, storageSamples) }
