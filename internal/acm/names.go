package acm

// MessageType says what a message is; the value of its field messageType.
type MessageType string

// The messages that ACM runtimes and participants exchange. A message of any other type is not for us.
const (
	TypeStatus           MessageType = "PARTICIPANT_STATUS"
	TypeStatusReq        MessageType = "PARTICIPANT_STATUS_REQ"
	TypeRegister         MessageType = "PARTICIPANT_REGISTER"
	TypeRegisterAck      MessageType = "PARTICIPANT_REGISTER_ACK"
	TypeDeregister       MessageType = "PARTICIPANT_DEREGISTER"
	TypeDeregisterAck    MessageType = "PARTICIPANT_DEREGISTER_ACK"
	TypePrime            MessageType = "PARTICIPANT_PRIME"
	TypePrimeAck         MessageType = "PARTICIPANT_PRIME_ACK"
	TypeRestart          MessageType = "PARTICIPANT_RESTART"
	TypeSync             MessageType = "PARTICIPANT_SYNC_MSG"
	TypeReqSync          MessageType = "PARTICIPANT_REQ_SYNC_MSG"
	TypeDeploy           MessageType = "AUTOMATION_COMPOSITION_DEPLOY"
	TypeDeployAck        MessageType = "AUTOMATION_COMPOSITION_DEPLOY_ACK"
	TypeStateChange      MessageType = "AUTOMATION_COMPOSITION_STATE_CHANGE"
	TypeStateChangeAck   MessageType = "AUTOMATION_COMPOSITION_STATECHANGE_ACK"
	TypePropertiesUpdate MessageType = "PROPERTIES_UPDATE"
	TypeMigration        MessageType = "AUTOMATION_COMPOSITION_MIGRATION"
	TypePrepare          MessageType = "AUTOMATION_COMPOSITION_PREPARE"
)

// DeployState is where an element is in its deployment.
type DeployState string

// The deploy states; those in -ING are on the way.
const (
	Undeployed  DeployState = "UNDEPLOYED"
	Deploying   DeployState = "DEPLOYING"
	Deployed    DeployState = "DEPLOYED"
	Undeploying DeployState = "UNDEPLOYING"
	Deleting    DeployState = "DELETING"
	Deleted     DeployState = "DELETED"
	Updating    DeployState = "UPDATING"
	Migrating   DeployState = "MIGRATING"
	// The way back from an update or a migration (9.0.2 and later, Quebec and later).
	UpdateReverting    DeployState = "UPDATE_REVERTING"
	MigrationReverting DeployState = "MIGRATION_REVERTING"
)

// LockState says whether an element is locked.
type LockState string

// The lock states; those in -ING are on the way.
const (
	Unspecified LockState = "NONE"
	Locked      LockState = "LOCKED"
	Locking     LockState = "LOCKING"
	Unlocked    LockState = "UNLOCKED"
	Unlocking   LockState = "UNLOCKING"
)

// TypeState is the state of a composition definition.
type TypeState string

// The states of a composition definition.
const (
	Commissioned TypeState = "COMMISSIONED"
	Priming      TypeState = "PRIMING"
	Primed       TypeState = "PRIMED"
	Depriming    TypeState = "DEPRIMING"
)

// Result is the outcome of an order.
type Result string

// The results. TIMEOUT is only ever said by the runtime.
const (
	NoError  Result = "NO_ERROR"
	Failed   Result = "FAILED"
	TimedOut Result = "TIMEOUT"
)

// MigrationState says what a migration does to an element.
type MigrationState string

// The migration states (Quebec and later); empty means DEFAULT.
const (
	MigrationDefault MigrationState = "DEFAULT"
	MigrationNew     MigrationState = "NEW"
	MigrationRemoved MigrationState = "REMOVED"
)

// OnLine is the state that participants of London to 9.0.1 tell of themselves.
const OnLine = "ON_LINE"

// The words by which orders are given inside messages.
const (
	wordUndeploy = "UNDEPLOY"
	wordDelete   = "DELETE"
	wordLock     = "LOCK"
	wordUnlock   = "UNLOCK"
	wordDeprime  = "DEPRIME"
)
