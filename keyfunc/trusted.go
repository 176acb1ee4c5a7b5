package keyfunc

import (
	"fmt"
	"net/netip"
)

// parseTrusted reads the trusted addresses and prefixes of an option.
func parseTrusted(option string, texts []string) (prefixes []netip.Prefix, faults []error) {
	for i, text := range texts {
		prefix, fault := parseTrustedPrefix(text)
		if fault != nil {
			fault.Field, fault.Value = fmt.Sprintf("%s[%d]", option, i), text
			if text == "" {
				fault.Value = `""`
			}
			faults = append(faults, fault)
			continue
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, faults
}

// parseTrustedPrefix reads an address or a prefix whose host bits are zero.
// The fault has no field and value yet.
func parseTrustedPrefix(text string) (netip.Prefix, *FieldError) {
	if addr, err := netip.ParseAddr(text); err == nil {
		if addr.Zone() != "" {
			return netip.Prefix{}, &FieldError{Problem: "has a zone", Remedy: "leave out the part from the percent sign on"}
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, &FieldError{Problem: "neither an address nor a prefix", Remedy: "write it like 10.0.1.7 or 192.0.2.0/24"}
	}
	switch whole := prefix.Masked(); {
	case unmapPrefix(whole).Bits() == 0:
		return netip.Prefix{}, &FieldError{Problem: "trusts everyone", Remedy: "list the exact addresses of your proxies"}
	case whole != prefix:
		return netip.Prefix{}, &FieldError{Problem: "has bits set beyond its length", Remedy: fmt.Sprintf("use %s for that address alone, or %s for all of the network", prefix.Addr(), whole)}
	}
	return unmapPrefix(prefix), nil
}
