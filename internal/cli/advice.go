package cli

import "slices"

// advice says in plain words what a reason means, and what to do about it. Both are whole sentences.
type advice struct {
	meaning string
	// remedy is empty where there is nothing to do.
	remedy string
	// quiet is a reason that nobody need hear of while the custom resource is Ready.
	quiet bool
	// stalled is the reason of a problem that only a change of the input clears.
	stalled bool
	// vague is a reason that only says that something else is the matter: the objects tell what.
	vague bool
}

// adviceTables are those of the engine and of every controller.
var adviceTables = []map[string]advice{engineAdvice, trustyAIAdvice, tfservingAdvice, kubeflowAdvice, seldonAdvice, kserveAdvice}

// adviceOn finds the advice on the reason of a condition of a custom resource.
func adviceOn(reason string) (advice, bool) {
	for _, table := range adviceTables {
		if a, found := table[reason]; found {
			return a, true
		}
	}
	return advice{}, false
}

// StalledReasons are the reasons of Ready that wait for a change of the input, sorted.
func StalledReasons() []string {
	var out []string
	for _, table := range adviceTables {
		for reason, a := range table {
			if a.stalled {
				out = append(out, reason)
			}
		}
	}
	slices.Sort(out)
	return out
}

// engineAdvice is on the reasons that the engine gives, on whatever kind.
var engineAdvice = map[string]advice{
	"Ready": {meaning: "Everything is as declared.", quiet: true},
	"Progressing": {
		meaning: "MLKeeper has written what is declared, and something of it is still on its way.",
		remedy:  "Wait; it goes on by itself.", vague: true,
	},
	"Retrying": {
		meaning: "A request to the API server failed in a way that may pass, and MLKeeper tries again with growing pauses.",
		remedy: "Wait a moment. If the same error stays, look whether the API server and the admission webhooks that the " +
			"message names answer.", vague: true,
	},
	"NotReady": {
		meaning: "The custom resource holds itself back although its objects are healthy.",
		remedy:  "Look at its other conditions.", vague: true,
	},
	"InvalidSpec": {
		stalled: true,
		meaning: "A field of the custom resource does not fit its type, so that MLKeeper cannot read it and changes nothing of it.",
		remedy:  "Correct the field that the message names, and apply the CustomResourceDefinitions of this release: with them the API server refuses such input.",
	},
	"WaitingForRollout": {
		meaning: "An update that restarts pods waits for the rollout in another namespace; what runs now serves as before.",
		remedy: "Nothing: the next namespace follows when all custom resources of the one that the message names are Ready, " +
			"suspended or deleted, or when it has had ten minutes.",
	},
	"SuspendAnnotation": {
		meaning: "It is suspended: MLKeeper neither writes nor deletes anything of it.",
		remedy:  "Remove the annotation keeper.mlkeeper.dev/suspend, or spec.suspend where that is set, to let it go on.",
	},
	"SuspendField": {
		meaning: "It is suspended by its spec: MLKeeper neither writes nor deletes anything of it.",
		remedy:  "Set spec.suspend to false to let it go on.",
	},
	"FieldOwnershipCeded": {
		meaning: "Another writer took a field, or an entry in an object of somebody else, back three times in ten minutes, so MLKeeper ceded it.",
		remedy:  "Remove one of the two declarations: the field in the other writer's manifest, or in the custom resource.",
	},
	"CacheNotSynced": {
		meaning: "MLKeeper is opening a watch that it needs before it can judge.",
		remedy: "Wait a moment. If it stays, the message, the manager's log and /readyz name the kind that it cannot list or watch, and " +
			"why: grant that right, or mend the webhook or server that does not answer.",
	},
	"RecreationBackOff": {
		meaning: "Somebody deletes one of its objects whenever it was made, so that it is made anew less and less often.",
		remedy: "Find out who deletes it, by the audit log, and what that one misses, such as the ServiceAccount that a token " +
			"is of.",
	},
	"ResourceConflict": {
		meaning: "An object of somebody else stands under the name of one of its objects, and MLKeeper never touches what it did not make.",
		remedy: "Rename or delete that object, or, to hand it over while nobody owns it, annotate the custom resource with " +
			"keeper.mlkeeper.dev/adopt=true.",
	},
	"NamespaceTerminating": {
		meaning: "The namespace is being deleted, and nothing can be made in it any more.",
		remedy:  "Nothing, if that is wanted; else apply the custom resource in another namespace.",
	},
	"Forbidden": {
		meaning: "The API server refused MLKeeper a right that it needs.",
		remedy: "Grant the right that the message names to MLKeeper's service account; `mlkeeper rbac` prints the roles that " +
			"it needs. It tries again with pauses of up to five minutes.",
	},
	"InternalError": {
		meaning: "A panic of MLKeeper ended what it does in the background for the resource; that is a bug.",
		remedy:  "Report it with the stack in the manager's log. It tries again with pauses of up to five minutes.",
	},
	"AdmissionDenied": {
		meaning: "An admission policy or webhook refused one of its objects.",
		remedy:  "Change what the policy objects to, or the policy. It tries again with pauses of up to five minutes.",
	},
	"QuotaExceeded": {
		meaning: "A ResourceQuota of the namespace refuses one of its objects.",
		remedy:  "Raise the quota, or free some of it. It tries again with pauses of up to five minutes.",
	},
	"ImmutableField": {
		stalled: true,
		meaning: "The change needs a field to change that Kubernetes does not let change, and MLKeeper never recreates such an object for you.",
		remedy:  "Undo the change, or delete the object yourself if it can be spared; it is made anew then.",
	},
	"Invalid": {
		stalled: true,
		meaning: "The API server refuses one of its objects as invalid.",
		remedy:  "Correct the field that the message names.",
	},
	"WriteForbidden": {
		meaning: "The API server refused to let MLKeeper put its entry into an object of somebody else.",
		remedy:  "Clear what the message names; it is tried again by itself.",
	},
	"NotEditable": {
		meaning: "An object of somebody else has a form that MLKeeper cannot edit safely, so it stays as it is.",
		remedy:  "Correct the object as the message says.",
	},
	"NotReconciled": {
		meaning: "No manager has reported on it yet.",
		remedy: "Check that a manager runs, that its --controllers and --namespaces cover the custom resource, and, with shards, " +
			"that one --shard-selector selects its namespace.",
	},
}
