"""Who somebody is, as an identity provider says it: OpenID Connect by Authlib."""
