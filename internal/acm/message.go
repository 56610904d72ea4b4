package acm

// Message is what a runtime sends, with the fields of every release from London to the current master. Which of them are set
// depends on the type and on the release.
type Message struct {
	MessageType   MessageType `json:"messageType"`
	MessageID     string      `json:"messageId"`
	Timestamp     Time        `json:"timestamp"`
	ParticipantID string      `json:"participantId"`
	// ReplicaID addresses one replica of a participant (Oslo and later).
	ReplicaID string `json:"replicaId"`
	// PartitionKey is the key of the record (9.0.2 and later): records of one key come in the order in which they were sent. Older
	// runtimes give each record a random key.
	PartitionKey string `json:"partitionKey"`
	// ParticipantIDList names those that a broadcast is for (Quebec and later); empty for all.
	ParticipantIDList []string `json:"participantIdList"`

	CompositionID       string `json:"compositionId"`
	InstanceID          string `json:"automationCompositionId"`
	CompositionTargetID string `json:"compositionTargetId"`
	// Revisions (Quebec and later) tell whether what a participant knows is what the order was made for.
	RevisionComposition       string `json:"revisionIdComposition"`
	RevisionInstance          string `json:"revisionIdInstance"`
	RevisionCompositionTarget string `json:"revisionIdCompositionTarget"`

	// Definitions are the element definitions of PRIME, RESTART and SYNC.
	Definitions []DefinitionUpdate `json:"participantDefinitionUpdates"`
	// PrimeDtos are the same in the form of the current master; PrimeOrder is PRIME or DEPRIME there.
	PrimeDtos  []PrimeDto `json:"primeDtoList"`
	PrimeOrder string     `json:"primeOrder"`

	// Updates hold the elements of DEPLOY, PROPERTIES_UPDATE and MIGRATION, by participant; Participants those of PREPARE.
	Updates      []ParticipantUpdate `json:"participantUpdatesList"`
	Participants []ParticipantUpdate `json:"participantList"`
	// ElementDtos are the elements of every order in the form of the current master.
	ElementDtos []ParticipantDto `json:"participantDtoList"`

	// StartPhase and FirstStartPhase give DEPLOY and STATE_CHANGE in phases, Stage MIGRATION and PREPARE in stages.
	StartPhase      int  `json:"startPhase"`
	FirstStartPhase bool `json:"firstStartPhase"`
	Stage           int  `json:"stage"`
	FirstStage      bool `json:"firstStage"`

	DeployOrder string `json:"deployOrderedState"`
	LockOrder   string `json:"lockOrderedState"`
	PreDeploy   bool   `json:"preDeploy"`
	Precheck    bool   `json:"precheck"`
	Rollback    bool   `json:"rollback"`

	// State, Instances, ExcludeReplicas and Delete are those of RESTART and SYNC.
	State           TypeState  `json:"state"`
	Instances       []Instance `json:"automationcompositionList"`
	ExcludeReplicas []string   `json:"excludeReplicas"`
	Delete          bool       `json:"delete"`
}

// DefinitionUpdate holds the element definitions of one participant.
type DefinitionUpdate struct {
	ParticipantID string              `json:"participantId"`
	Elements      []ElementDefinition `json:"automationCompositionElementDefinitionList"`
}

// ElementDefinition is the definition of an element in a composition, with the properties that all its instances share.
type ElementDefinition struct {
	ID       Identifier   `json:"acElementDefinitionId"`
	Template NodeTemplate `json:"automationCompositionElementToscaNodeTemplate"`
}

// NodeTemplate is the part of a ToscaNodeTemplate that matters here.
type NodeTemplate struct {
	Type        string     `json:"type"`
	TypeVersion string     `json:"type_version"`
	Properties  Properties `json:"properties"`
}

// PrimeDto holds the definitions of one participant; the keys of the map are Identifiers as String prints them.
type PrimeDto struct {
	ParticipantID string `json:"participantId"`
	Composition   struct {
		InProperties map[string]Properties `json:"inPropertiesMap"`
	} `json:"compositionDto"`
}

// ParticipantUpdate holds the elements of one participant.
type ParticipantUpdate struct {
	ParticipantID string          `json:"participantId"`
	Elements      []ElementUpdate `json:"acElementList"`
}

// ElementUpdate is an element as it is ordered, or as the runtime knows it (RESTART, SYNC).
type ElementUpdate struct {
	ID             string         `json:"id"`
	ParticipantID  string         `json:"participantId"`
	Definition     Identifier     `json:"definition"`
	MigrationState MigrationState `json:"migrationState"`
	Properties     Properties     `json:"properties"`
	DeployState    DeployState    `json:"deployState"`
	LockState      LockState      `json:"lockState"`
}

// ParticipantDto holds the elements of one participant in the form of the current master.
type ParticipantDto struct {
	ParticipantID string       `json:"participantId"`
	Elements      []ElementDto `json:"elementDtos"`
}

// ElementDto is an element with its definition, before and after the order. DEPLOY and STATE_CHANGE set the targets only.
type ElementDto struct {
	Composition       CompositionElement `json:"compositionElement"`
	CompositionTarget CompositionElement `json:"compositionElementTarget"`
	Instance          InstanceElement    `json:"instanceElement"`
	InstanceTarget    InstanceElement    `json:"instanceElementTarget"`
}

// CompositionElement is the definition of an element inside an ElementDto.
type CompositionElement struct {
	CompositionID string     `json:"compositionId"`
	Definition    Identifier `json:"elementDefinitionId"`
	InProperties  Properties `json:"inProperties"`
	State         string     `json:"state"`
}

// InstanceElement is an element inside an ElementDto. State is PRESENT, NOT_PRESENT, REMOVED or NEW.
type InstanceElement struct {
	InstanceID   string     `json:"instanceId"`
	ElementID    string     `json:"elementId"`
	InProperties Properties `json:"inProperties"`
	State        string     `json:"state"`
}

// Instance is an automation composition as the runtime knows it.
type Instance struct {
	InstanceID  string          `json:"automationCompositionId"`
	DeployState DeployState     `json:"deployState"`
	LockState   LockState       `json:"lockState"`
	Result      Result          `json:"stateChangeResult"`
	Revision    string          `json:"revisionId"`
	Elements    []ElementUpdate `json:"acElementList"`
}
