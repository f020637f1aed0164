package sqlclient

// CheckVersion is for tests that need second logins.
var CheckVersion = checkVersion
