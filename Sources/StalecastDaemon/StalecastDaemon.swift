import Yams
import ServiceLifecycle
import Crypto
