package health

// claim is the rule of a PersistentVolumeClaim (core/v1, PersistentVolumeClaimPhase). A pending resize leaves a bound
// claim current: it may wait for a Pod, which may wait for the claim.
func claim(o object) Result {
	switch o.text("status", "phase") {
	case "Bound":
		return current("Bound", "The claim is bound.")
	case "Lost":
		return failed("Lost", "The volume of the claim is gone, and its data with it.")
	}
	return inProgress("Pending", "The claim is not bound yet.")
}

// volume is the rule of a PersistentVolume (core/v1, PersistentVolumePhase).
func volume(o object) Result {
	switch phase := o.text("status", "phase"); phase {
	case "Available", "Bound", "Released":
		return current(phase, "The volume is usable.")
	case "Failed":
		return failed(reasonOr(o.text("status", "reason"), ReasonFailed), "The volume could not be reclaimed.")
	}
	return inProgress("Pending", "The volume is not available yet.")
}

// attachment is the rule of a VolumeAttachment (storage/v1). The attacher tries again after an error.
func attachment(o object) Result {
	if o.truth("status", "attached") {
		return current("Attached", "The volume is attached.")
	}
	if _, bad := o.value("status", "attachError"); bad {
		return inProgress("AttachError", "The volume could not be attached so far; it is tried again.")
	}
	return inProgress("NotAttached", "The volume is not attached yet.")
}
